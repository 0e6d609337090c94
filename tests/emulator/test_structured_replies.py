"""Structured replies over HTTP, on every protocol: one repair, counted and paid, and endings that are outcomes."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.behaviour.support import make_plan
from trialrun.app.running import Exit, run_study
from trialrun.core.calls import Finish, Usage
from trialrun.core.errors import ReplyUnreadable
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.store.tables import CallAttempt
from trialrun.testing.emulator import Emulator
from trialrun.testing.emulator.asked import Answer, Asked

MODELS = {
    "chat": "openai/gpt-4.1-mini",
    "responses": "openai-responses/gpt-4.1-mini",
    "anthropic": "anthropic/claude-haiku-4-5",
    "anthropic, by a tool": "anthropic/claude-sonnet-4-20250514",
    "anthropic, by a tool as the schema is open": "anthropic/claude-haiku-4-5",
    "gemini": "google/gemini-2.5-flash",
    "vertex": "vertex/gemini-2.5-flash",
    "json mode": "deepseek/deepseek-chat",
    "another server": "openrouter/meta-llama/llama-3.3-70b-instruct",
}
on_every_protocol = pytest.mark.parametrize("way", MODELS)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}
OPEN: dict[str, Any] = {
    **SCHEMA,
    "properties": {
        **SCHEMA["properties"],
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
    },
}
BAD, WORSE, GOOD = '{"score": 7}', '{"points": 3}', '{"score": 4}'


class Told:
    """Says what it is told to, and remembers what it was asked."""

    def __init__(self, *texts: str, finish: Finish = "stop") -> None:
        self.texts = texts
        self.finish: Finish = finish
        self.asked: list[Asked] = []

    async def answer(self, asked: Asked, key: bytes) -> Answer:
        text = self.texts[len(self.asked)]
        self.asked.append(asked)
        finish: Finish = "tool" if asked.tool is not None and self.finish == "stop" else self.finish
        # No two replies use the same number of tokens, so that no cost is mistaken for another.
        return Answer(text=text, usage=Usage(tokens_in=900 + len(self.asked), tokens_out=40), finish=finish)


async def calls_of(
    way: str, told: Told, folder: Path, monkeypatch: pytest.MonkeyPatch, *, is_structured: bool = True
) -> tuple[dict[str, Any], list[CallAttempt], list[Decimal | None]]:
    """What the trial came to, its calls, and what the book says that each cost."""
    model = MODELS[way]
    schema = (OPEN if "open" in way else SCHEMA) if is_structured else None

    async def rate(trial: Trial, lab: Lab) -> dict[str, object]:
        try:
            reply = await lab.ask("a", "How warm was it?", schema=schema)
        except ReplyUnreadable as error:
            return {"unreadable": error.what}
        return {"data": reply.data, "finish": reply.finish, "text": reply.text}

    async with Emulator(source=told) as server:
        for name, value in server.settings(model.partition("/")[0]).items():
            monkeypatch.setenv(name, value)
        party = {"model": model, "prompt": "You rate.", "max_tokens": 300}
        changes: dict[str, Any] = {"factors": {}, "replicates": 1, "budget_usd": 5, "parties": {"a": party}}
        plan = make_plan(folder, rate, **changes)
        ran = await run_study(plan)
        book = [entry.cost_usd for entry in server.book]
    assert ran.exit is Exit.DONE
    with Archive(plan.folder) as archive:
        (trial,) = archive.trials()
        return dict(trial.values), list(archive.calls()), book


@on_every_protocol
async def test_a_reply_that_does_not_fit_has_one_repair_with_a_cost_of_its_own(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(BAD, GOOD)
    values, calls, book = await calls_of(way, told, tmp_path, monkeypatch)
    assert values["data"] == {"score": 4}
    assert [(call.at, call.purpose, call.attempt) for call in calls] == [("0", "", 1), ("0.r", "repair", 1)]
    assert [call.cost_usd for call in calls] == book
    assert len(set(book)) == 2
    assert "`$.score` is 7" in calls[0].unreadable
    assert not calls[1].unreadable
    *_, said, asked = told.asked[1].messages
    assert msgspec.json.decode(said.text) == {"score": 7}, "the model is shown its own words"
    assert "must be at most 5" in asked.text


@on_every_protocol
async def test_a_second_reply_that_does_not_fit_is_the_end_and_both_are_paid(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, calls, book = await calls_of(way, Told(BAD, WORSE), tmp_path, monkeypatch)
    assert "score" in values["unreadable"]
    assert [call.purpose for call in calls] == ["", "repair"]
    assert all(call.unreadable for call in calls)
    assert [call.cost_usd for call in calls] == book
    assert all(book)


@on_every_protocol
@pytest.mark.parametrize("is_structured", [True, False])
async def test_a_refusal_is_an_outcome_that_nothing_repairs(
    way: str, is_structured: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told("I would rather not.", finish="refusal")
    values, calls, book = await calls_of(way, told, tmp_path, monkeypatch, is_structured=is_structured)
    assert (values["finish"], values["data"]) == ("refusal", None)
    (call,) = calls
    assert (call.finish, call.unreadable, call.status) == ("refusal", "", "settled")
    assert [call.cost_usd] == book
    assert call.cost_usd


@on_every_protocol
async def test_a_cut_reply_is_an_outcome(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told("It was war", finish="length")
    values, calls, book = await calls_of(way, told, tmp_path, monkeypatch, is_structured=False)
    assert (values["finish"], values["text"]) == ("length", "It was war")
    assert [(call.finish, call.cost_usd) for call in calls] == [("length", book[0])]


@on_every_protocol
async def test_half_of_a_structured_reply_is_none_and_another_would_be_cut_as_well(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told('{"sco', finish="length")
    values, calls, book = await calls_of(way, told, tmp_path, monkeypatch)
    assert "cut at max_tokens (300)" in values["unreadable"]
    assert [(call.purpose, call.cost_usd) for call in calls] == [("", book[0])]
