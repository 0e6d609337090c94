"""Lines such as `Trust: 5` that a text keeps from one state to the next: a narrator gives each again, a little moved.

So what a study takes out of a state by a pattern has values in a rehearsal too, and they change over the turns.
"""

import re

from trialrun.providers.rehearsal.dice import Dice

_LINE = re.compile(
    r"^(?P<name>[A-Z][A-Za-z' -]{1,40}): (?P<value>\d{1,12}(?:,\d{3})*(?:\.\d{1,6})?|yes|no)(?P<unit> ?%)?$",
    re.MULTILINE,
)
_TURNS = 0.2
"""How often a yes becomes a no, and the other way round."""


def moved(text: str, dice: Dice) -> str:
    """The indicator lines of a text, the last of each name, with new values; empty if it has none."""
    last = {found["name"]: found for found in _LINE.finditer(text)}
    lines = [f"{name}: {_moved(found['value'], dice)}{found['unit'] or ''}" for name, found in last.items()]
    return "\n".join(lines)


def _moved(value: str, dice: Dice) -> str:
    if value in ("yes", "no"):
        return ("no" if value == "yes" else "yes") if dice.happens(_TURNS) else value
    number = float(value.replace(",", ""))
    step = max(1.0, 0.2 * number)
    places = len(value.partition(".")[2])
    return f"{max(0.0, number + step * (2 * dice.fraction() - 1)):.{places}f}"
