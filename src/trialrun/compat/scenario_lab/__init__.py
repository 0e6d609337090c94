"""Scenario Lab: its batch file as a study, and its files as a view of the journal."""
