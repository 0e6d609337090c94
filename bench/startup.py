"""How long it takes until something happens."""

import statistics
import subprocess
import sys
import time

from bench.common import is_short, report


def main() -> None:
    rounds = 3 if is_short() else 9
    bare = _ms(["-c", "pass"], rounds)
    report(
        "import trialrun, beyond the bare interpreter",
        _ms(["-c", "import trialrun"], rounds) - bare,
        "ms",
        150,
    )
    report("trialrun --help, all in", _ms(["-m", "trialrun", "--help"], rounds), "ms", 300)


def _ms(arguments: list[str], rounds: int) -> float:
    times: list[float] = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times[1:])


if __name__ == "__main__":
    main()
