"""`python -m bench [--short] [NAME …]`: each measurement in a fresh process, one JSON line each, then a table."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

MEASUREMENTS = (
    "engine",
    "live",
    "storm",
    "batches",
    "memory",
    "planning",
    "restart",
    "frames",
    "startup",
    "doors",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "names", nargs="*", choices=[*MEASUREMENTS, []], help="which measurements; all if none"
    )
    parser.add_argument("--short", action="store_true", help="the form that the tests run")
    given = parser.parse_args()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if len(env) < len(os.environ):
        # What is measured is an installation, whose code is compiled once and not at each start.
        env.setdefault("PYTHONPYCACHEPREFIX", str(Path(sys.prefix) / "compiled"))
    results: list[dict[str, object]] = []
    for name in given.names or MEASUREMENTS:
        command = [sys.executable, "-m", f"bench.{name}", *(["--short"] if given.short else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
        if done.returncode:
            sys.stderr.write(done.stderr)
            return done.returncode
        results += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    for result in results:
        sys.stdout.write(
            f"{result['what']:<78} {result['value']:>12} {result['unit']:<14} bar {result['bar']}\n"
        )
    missed = [result for result in results if not result["is_met"]]
    sys.stdout.write(f"{len(results) - len(missed)} of {len(results)} bars met\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
