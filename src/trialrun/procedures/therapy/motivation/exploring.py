"""Where a counsellor is on the map of topics: a stack of at most three, from wide to specific. Pure functions."""

from collections.abc import Mapping
from enum import StrEnum

from trialrun.procedures.therapy.motivation.topics import Topics

DEEPEST = 3
SURE = 50
LATEST_TURN = 10
Stack = tuple[str, ...]


class Move(StrEnum):
    INTO = "step into"
    SWITCH = "switch"
    OUT = "step out"
    STAY = "stay"


def begun(scores: Mapping[str, int], turn: int) -> Stack:
    """The first topic: one that is likely enough, or the likeliest when there was time enough to find out."""
    best = max(scores, key=lambda topic: scores[topic])
    return (best,) if scores[best] > SURE or turn > LATEST_TURN else ()


def choices(topics: Topics, stack: Stack) -> dict[str, tuple[Move, str]]:
    """All that can be done from here, by a label that a model can choose."""
    here = stack[-1]
    found: dict[str, tuple[Move, str]] = {f"{Move.STAY}: {here}": (Move.STAY, here)}
    if len(stack) < DEEPEST:
        found |= {f"{Move.INTO}: {child}": (Move.INTO, child) for child in topics.children(here)}
    beside = topics.top if len(stack) == 1 else topics.children(stack[-2])
    found |= {f"{Move.SWITCH}: {other}": (Move.SWITCH, other) for other in beside if other != here}
    if len(stack) > 1:
        found[f"{Move.OUT}: {stack[-2]}"] = (Move.OUT, stack[-2])
    return found


def moved(stack: Stack, move: Move, topic: str) -> Stack:
    """The stack after the move."""
    match move:
        case Move.INTO:
            return (*stack, topic)
        case Move.SWITCH:
            return (*stack[:-1], topic)
        case Move.OUT:
            return stack[:-1]
        case Move.STAY:
            return stack
