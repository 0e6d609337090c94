"""Prompts are filled in the same way in every replay."""

import pytest

from trialrun.core.errors import ProcedureError
from trialrun.engine import sandbox
from trialrun.engine.sandbox import filled_in


def test_values_that_are_equal_and_spelled_differently_stay_apart() -> None:
    texts = [filled_in("{{ value }}", {"value": value}, where="p") for value in (1, True, 1.0, "1", 1)]
    assert texts == ["1", "True", "1.0", "1", "1"]


def test_a_value_is_never_taken_for_another_of_the_same_words() -> None:
    template = "{{ a }} and {{ b }}"
    assert filled_in(template, {"a": "x", "b": "y"}, where="p") == "x and y"
    assert filled_in(template, {"b": "x", "a": "y"}, where="p") == "y and x"
    assert filled_in("{{ a }}{{ b }}", {"a": "b", "b": "a"}, where="p") == "ba"


def test_a_text_is_filled_in_once_and_kept_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    filled: dict[tuple[str, ...], str] = {}
    monkeypatch.setattr(sandbox, "_filled", filled)
    first = filled_in("{{ tone }}!", {"tone": "warm"}, where="p")
    assert filled_in("{{ tone }}!", {"tone": "warm"}, where="p") is first
    for number in range(3 * sandbox._KEPT):
        filled_in("{{ tone }}!", {"tone": str(number)}, where="p")
    assert len(filled) <= sandbox._KEPT
    filled.clear()
    filled_in("{{ tone }}!", {"tone": "x" * 30_000}, where="p")
    assert not filled, "long ones are not kept"


@pytest.mark.parametrize("template", ["{{ ['a', 'b'] | random }}", "{{ lipsum() }}"])
def test_a_prompt_draws_nothing_at_random(template: str) -> None:
    with pytest.raises(ProcedureError, match="a prompt cannot draw at random"):
        filled_in(template, {}, where="p")
