"""Trials and calls as spans of OpenTelemetry, for those who ask for them."""
