"""The forms of structured replies: JSON Schemas in the strict style that every provider takes."""

from collections.abc import Mapping, Sequence

from trialrun.procedures.scenario.world import Metric

Form = dict[str, object]
TEXT: Form = {"type": "string"}
WRITTEN: Form = {"type": "string", "minLength": 1}
"""A text without which a turn cannot go on: an empty one is asked for once more."""
FLAG: Form = {"type": "boolean"}
TEXTS: Form = {"type": "array", "items": TEXT}


def form(**properties: Mapping[str, object]) -> Form:
    """An object with exactly these properties, all of them required."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def choice(options: Sequence[str]) -> Form:
    return {"type": "string", "enum": list(options)}


def contact(others: Sequence[str]) -> Form:
    return form(contact=FLAG, to=choice(others), message=TEXT)


def proposal(others: Sequence[str]) -> Form:
    return form(propose=FLAG, members={"type": "array", "items": choice(others)}, purpose=TEXT)


REPLY = form(reply=TEXT, notes=TEXT)
ANSWER = form(accept=FLAG, reason=TEXT)
MESSAGE = form(message=TEXT)
STATEMENT = form(speak=FLAG, statement=TEXT)
WORLD = form(world_state=WRITTEN, key_changes=TEXTS, consequences=TEXTS)
SUMMARY = form(summary=WRITTEN)
ISSUES = form(issues=TEXTS)


def decision(*, reflects: bool) -> Form:
    first = {"reflection": TEXT} if reflects else {}
    return form(**first, long_term_goals=TEXTS, short_term_priorities=TEXTS, reasoning=TEXT, action=WRITTEN)


def value(metric: Metric) -> Form:
    """The form of a metric's value; `is_known` is the way out that keeps a model from guessing."""
    match metric.kind:
        case "truth":
            one: Form = FLAG
        case "label":
            one = choice(metric.categories)
        case "text":
            one = TEXT
        case "whole" | "number":
            one = {"type": "integer" if metric.kind == "whole" else "number"}
            if metric.low is not None and metric.high is not None:
                one |= {"minimum": metric.low, "maximum": metric.high}
    return form(reason=TEXT, is_known=FLAG, value=one)
