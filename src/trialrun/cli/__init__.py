"""The command line: parse the request, call `app`, render the answer. One module per command, with no rule of its own.

A command is imported when it is used, and what it needs when it runs: `trialrun --help` loads click and nothing else.
"""

import sys


def main() -> None:
    """The program `trialrun`."""
    from trialrun.cli.entry import run

    sys.exit(run(sys.argv[1:]))
