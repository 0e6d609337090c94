"""`python -m trialrun`: the command line, where the program itself is not on the path."""

from trialrun.cli import main

main()
