"""How long it takes until something happens."""

import statistics

from bench.common import is_short, process_felt, report


def main() -> None:
    bare_ms, _ = _ms(["-c", "pass"])
    imported_ms, unit = _ms(["-c", "import trialrun"])
    report("import trialrun, beyond the bare interpreter", imported_ms - bare_ms, unit, 150)
    report("trialrun --help, all in", *_ms(["-m", "trialrun", "--help"]), 300)


def _ms(arguments: list[str]) -> tuple[float, str]:
    """The median of some processes, the first left out: it may read from a cold disk."""
    measured = [process_felt(arguments) for _ in range(4 if is_short() else 10)]
    return 1000 * statistics.median(seconds for seconds, _, _ in measured[1:]), f"m{measured[0][1]}"


if __name__ == "__main__":
    main()
