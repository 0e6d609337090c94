"""Judging as a stage of its own: finished trials are rated by a rubric, as often and by as many raters as one likes."""
