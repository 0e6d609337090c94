"""Free texts in rehearsed data: as long as somebody would write them, and never the cause of a verdict."""

from typing import Any

import pytest

from tests.providers.rehearsed import ask, call
from tests.providers.test_rehearsal_schemas import Schema, check
from trialrun.providers.rehearsal import RehearsalProvider

DECISION: Schema = {
    "type": "object",
    "properties": {
        "reason": {"type": "string"},
        "action": {"type": "string"},
        "motto": {"type": "string", "description": "In at most 10 words."},
        "short": {"type": "string", "maxLength": 60},
        "title": {"type": "string"},
        "steps": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
        "score": {"type": "integer", "minimum": 1, "maximum": 100},
    },
    "required": ["reason", "action", "motto", "short", "title", "steps", "score"],
    "additionalProperties": False,
}


def decided(quantile: float, *, who: str = "judge", number: int = 0, max_tokens: int = 2000) -> Any:
    this = call(
        "Decide about the well.",
        system=f"You are a fair {who}.",
        party=who,
        number=number,
        max_tokens=max_tokens,
        schema=DECISION,
    )
    data: Any = ask(this, RehearsalProvider(length_quantile=quantile))[0].data
    check(DECISION, data)
    return data


def words(text: str) -> int:
    return len(text.split())


def test_texts_in_data_are_as_long_as_somebody_would_write_them():
    short = [decided(0.1, who="advisor", number=number) for number in range(40)]
    long = [decided(0.9, who="advisor", number=number) for number in range(40)]

    def mean(found: list[Any], name: str) -> float:
        return sum(words(each[name]) for each in found) / len(found)

    for name in ("reason", "action"):
        assert 1.5 * mean(short, name) < mean(long, name)
        assert mean(long, name) > 25
    assert mean(long, "motto") < 16, "what the description asks for"
    assert all(len(each["short"]) <= 60 for each in long)
    assert mean(long, "title") < 3
    assert all(words(step) < 25 for each in long for step in each["steps"]), "a list has a sentence an item"


@pytest.mark.parametrize("max_tokens", [2000, 150, 100], ids=["room", "little", "hardly any"])
def test_a_verdict_does_not_depend_on_how_much_is_said_about_it(max_tokens: int):
    for number in range(40):
        terse, verbose = (
            decided(quantile, number=number, max_tokens=max_tokens) for quantile in (0.01, 0.99)
        )
        assert terse["score"] == verbose["score"]
