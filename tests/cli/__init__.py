"""Tests of the command line, through its own doors: arguments in, output and exit codes out."""
