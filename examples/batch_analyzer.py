"""Analyses a batch: `python examples/batch_analyzer.py DIR [--report]`, or `from batch_analyzer import BatchAnalyzer`.

The command is the same as `trialrun analyze DIR [--report]`.
"""

import sys

from trialrun.cli.entry import run
from trialrun.compat.batch_analyzer import BatchAnalyzer

__all__ = ["BatchAnalyzer"]

if __name__ == "__main__":
    sys.exit(run(["analyze", *sys.argv[1:]]))
