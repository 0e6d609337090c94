"""Tests of Trialrun."""
