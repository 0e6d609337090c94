"""The session files of a batch as CSV; docs/patienthub.md has it.

python -m examples.export --input_dir outputs/batch/2026-01-19_14-30-00 --output results.csv --stats
"""

from trialrun.cli.scripts.export_sessions import main
from trialrun.compat.patienthub.export import load_sessions, sessions_to_dataframe

__all__ = ["load_sessions", "main", "sessions_to_dataframe"]

if __name__ == "__main__":
    main()
