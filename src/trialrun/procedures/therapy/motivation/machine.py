"""Stages of change as a pure state machine: what hearing does to a person, what the person may do, and what follows.

M1. An impossible action has weight 0: nothing can be voiced that is not there.
M2. A belief is given up once and never comes back; a plan is named once.
M3. Stages only move forward: precontemplation, motivation (for one reply), contemplation, preparation, action.
M4. Receptivity stays between 1 and 5 and moves with engagement; engagement is 1 to 4.
M5. Whoever was off topic five times in a row, after patience has run out, is left: that ends the session.
M6. In precontemplation the model's proposal and the observed prior count the same, whatever numbers the model likes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType


class Stage(StrEnum):
    PRECONTEMPLATION = "precontemplation"
    MOTIVATION = "motivation"
    CONTEMPLATION = "contemplation"
    PREPARATION = "preparation"
    ACTION = "action"


class Action(StrEnum):
    DENY = "deny"
    DOWNPLAY = "downplay"
    BLAME = "blame"
    INFORM = "inform"
    ENGAGE = "engage"
    HESITATE = "hesitate"
    DOUBT = "doubt"
    ACKNOWLEDGE = "acknowledge"
    REJECT = "reject"
    ACCEPT = "accept"
    PLAN = "plan"
    TERMINATE = "terminate"


_A = Action
ACTIONS: Mapping[Stage, tuple[Action, ...]] = MappingProxyType(
    {
        Stage.PRECONTEMPLATION: (_A.DENY, _A.DOWNPLAY, _A.BLAME, _A.INFORM, _A.ENGAGE),
        Stage.MOTIVATION: (_A.ACKNOWLEDGE,),
        Stage.CONTEMPLATION: (_A.INFORM, _A.ENGAGE, _A.HESITATE, _A.DOUBT, _A.ACKNOWLEDGE),
        Stage.PREPARATION: (_A.INFORM, _A.ENGAGE, _A.REJECT, _A.ACCEPT, _A.PLAN),
        Stage.ACTION: (_A.INFORM, _A.ENGAGE, _A.ACCEPT),
    }
)
"""What may be drawn. Terminate is nobody's whim: it follows from M5."""
_PRIOR_ORDER = (_A.DENY, _A.DOWNPLAY, _A.BLAME, _A.ENGAGE, _A.INFORM)
_PRIORS: tuple[tuple[float, tuple[int, ...]], ...] = (
    (2.0, (23, 28, 15, 11, 22)),
    (3.0, (20, 25, 10, 15, 30)),
    (4.0, (19, 21, 11, 13, 36)),
    (5.0, (9, 20, 13, 14, 44)),
    (float("inf"), (7, 13, 4, 16, 60)),
)
"""Receptivity below this bound → how often people who were observed did what, in percent."""
_DRIFT: Mapping[int, float] = MappingProxyType({1: -0.2, 2: -0.05, 3: 0.1, 4: 0.25})
MOST_ERRORS = 5
HIGHEST_WEIGHT = 100
_PERCENT = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Mind:
    """The person at one moment."""

    stage: Stage
    receptivity: float
    engagement: int = 2
    off_topic: int = 0
    heard: int = 0
    """How often the counsellor has spoken."""
    personas: tuple[str, ...] = ()
    beliefs: tuple[str, ...] = ()
    plans: tuple[str, ...] = ()


def settled(mind: Mind) -> Mind:
    """Whoever has no objections left begins to prepare."""
    if mind.stage is Stage.CONTEMPLATION and not mind.beliefs:
        return replace(mind, stage=Stage.PREPARATION)
    return mind


def addressed(mind: Mind) -> Mind:
    """After words that speak to no topic at all, such as a greeting."""
    return replace(mind, heard=mind.heard + 1)


def listened(mind: Mind, distance: int | None, *, patience_turns: int = 10, drift: float = 1.0) -> Mind:
    """After the counsellor's words, so far from what matters to the person; None: no way leads there."""
    heard = mind.heard + 1
    engagement = (
        1 if distance is None else 4 if distance == 0 else 3 if distance <= 3 else 2 if distance <= 5 else 1
    )
    off_topic = 0 if engagement >= 3 else mind.off_topic
    if engagement == 1 and heard > patience_turns:
        off_topic += 1
    moved = mind.receptivity + drift * _DRIFT[engagement]
    return replace(
        mind,
        heard=heard,
        engagement=engagement,
        off_topic=off_topic,
        receptivity=round(min(5.0, max(1.0, moved)), 6),
    )


def touched(mind: Mind) -> Mind:
    """After words that speak to what could move the person; who is past that point stays where it is."""
    return replace(mind, stage=Stage.MOTIVATION) if mind.stage is Stage.PRECONTEMPLATION else mind


def forced(mind: Mind) -> Action | None:
    """The action that leaves no choice, if there is one."""
    if mind.stage is Stage.MOTIVATION:
        return Action.ACKNOWLEDGE
    if mind.stage is Stage.PRECONTEMPLATION and mind.off_topic >= MOST_ERRORS:
        return Action.TERMINATE
    return None


def weights(mind: Mind, proposed: Mapping[str, int]) -> dict[Action, float]:
    """How likely each action of the stage is: what the model proposed, the prior of precontemplation added."""
    found: dict[Action, float] = {
        action: min(HIGHEST_WEIGHT, max(0, proposed.get(action, 0))) for action in ACTIONS[mind.stage]
    }
    if mind.stage is Stage.PRECONTEMPLATION:
        scale = _PERCENT / (sum(found.values()) or 1)
        found = {action: weight * scale + prior(mind.receptivity)[action] for action, weight in found.items()}
    found = {action: weight if is_possible(mind, action) else 0 for action, weight in found.items()}
    if not any(found.values()):
        found = {action: int(is_possible(mind, action)) for action in found}
    return found


def prior(receptivity: float) -> dict[Action, int]:
    """The row of the band that this receptivity is in."""
    row = next(row for bound, row in _PRIORS if receptivity < bound)
    return dict(zip(_PRIOR_ORDER, row, strict=True))


def is_possible(mind: Mind, action: Action) -> bool:
    """Whether there is anything to say with this action."""
    match action:
        case Action.INFORM:
            return bool(mind.personas)
        case Action.BLAME | Action.HESITATE:
            return bool(mind.beliefs)
        case Action.PLAN:
            return bool(mind.plans)
        case _:
            return True


def drawn(weights_: Mapping[Action, float], fraction: float) -> Action:
    """The action at this fraction, from [0, 1), of the sum of all weights."""
    left = fraction * sum(weights_.values())
    likely = [(action, weight) for action, weight in weights_.items() if weight > 0]
    for action, weight in likely:
        left -= weight
        if left < 0:
            return action
    return likely[-1][0]


def items_for(mind: Mind, action: Action) -> Sequence[str]:
    """What the action may draw on: facts about the person, objections, or the next plan."""
    match action:
        case Action.INFORM:
            return mind.personas
        case Action.DOWNPLAY | Action.BLAME | Action.HESITATE:
            return mind.beliefs
        case Action.PLAN:
            return mind.plans[:1]
        case _:
            return ()


def acted(mind: Mind, action: Action, item: str | None) -> Mind:
    """After the person has spoken: what is used up, and the stage that it goes on in."""
    if action is Action.HESITATE and item is not None:
        mind = replace(mind, beliefs=_without(mind.beliefs, item))
    if action is Action.PLAN:
        mind = replace(mind, plans=mind.plans[1:])
    if mind.stage is Stage.MOTIVATION:
        return replace(mind, stage=Stage.CONTEMPLATION)
    if mind.stage is Stage.PREPARATION and action in (Action.ACCEPT, Action.PLAN) and not mind.plans:
        return replace(mind, stage=Stage.ACTION)
    return mind


def _without(items: tuple[str, ...], item: str) -> tuple[str, ...]:
    place = items.index(item)
    return items[:place] + items[place + 1 :]
