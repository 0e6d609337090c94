"""Runs a batch of Scenario Lab: `python examples/batch_runner.py CONFIG [--resume]`.

The same as `trialrun run CONFIG [--resume]`, whose other flags work here too.
"""

import sys

from trialrun.cli.entry import run

if __name__ == "__main__":
    sys.exit(run(["run", *sys.argv[1:]]))
