"""Therapists, one method a file."""

from trialrun.procedures.therapy.therapists import bad, basic, cbt, eliza, mi

__all__ = ["bad", "basic", "cbt", "eliza", "mi"]
