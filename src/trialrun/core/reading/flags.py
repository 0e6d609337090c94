"""Overrides of a study file as the flags that a user types."""

import json

from trialrun.core.reading.source import plain_value

BUDGET = ("budget_usd", "budget_usd.study")
_OWN = {
    "replicates": "--replicates",
    **dict.fromkeys(BUDGET, "--budget"),
    "seed": "--seed",
    "limits.open_trials": "--open",
    "rehearsal.speed": "--speed",
    "rehearsal.errors": "--errors",
    "rehearsal.words": "--words",
    "batch.then": "--then",
}


def flag_words(dotted: str, value: object) -> tuple[str, str]:
    """The flag and its argument, which is read back as this value."""
    if dotted == "batch.deadline_h" and isinstance(value, int | float):
        return "--deadline", f"{value:g}h"
    if dotted in _OWN:
        return _OWN[dotted], str(value)
    return "--set", f"{dotted}={_written(value)}"


def flag_text(dotted: str, value: object) -> str:
    """The flag in a sentence."""
    return " ".join(flag_words(dotted, value))


def _written(value: object) -> str:
    if isinstance(value, str) and plain_value(value) == value:
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
