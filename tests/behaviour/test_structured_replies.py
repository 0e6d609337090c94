"""Structured replies, tools and what comes beside a message: checked, repaired once, recorded, replayed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.behaviour.support import make_plan, run, states
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.app.verifying import verify
from trialrun.core import facts as f
from trialrun.core.calls import Call, Finish, Message, Parsed, Tool, ToolCall
from trialrun.core.errors import BudgetExhausted, ReplyUnreadable
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Answer, Scripted

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}
ONE: dict[str, Any] = {"factors": {}, "replicates": 1}
TOOL = Tool(name="look", description="Looks.", parameters={"type": "object", "properties": {}})
WISH = ToolCall(id="c1", name="look", arguments={"at": "the sea"}, carry="{}")


async def rate(trial: Trial, lab: Lab) -> dict[str, object]:
    reply = await lab.ask("a", "How warm was it?", schema=SCHEMA)
    data: Any = reply.data
    return {"score": data["score"], "at": reply.address}


def answers(*texts: str) -> Callable[[Call], Answer]:
    waiting = list(texts)
    return lambda _call: waiting.pop(0)


def settled(plan: Any) -> list[f.Settled]:
    with Archive(plan.folder) as archive:
        trial = next(iter(archive.trials())).id
        return [entry.fact for entry in archive.facts_of(trial) if isinstance(entry.fact, f.Settled)]


@pytest.mark.parametrize("finish", ["stop", "length", "other"])
async def test_a_reply_that_is_whole_is_read_however_it_is_said_to_have_ended(
    tmp_path: Path, finish: Finish
) -> None:
    plan = make_plan(tmp_path, rate, **ONE)
    ran = await run(plan, Scripted(lambda _: Parsed(text='{"score": 4}', finish=finish)))
    assert ran.exit is Exit.DONE
    assert [state.values for state in states(plan).values()] == [{"score": 4, "at": "0"}]
    assert (await verify(plan)).is_exact


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ('{"score": 7}', "`$.score` is 7, and must be at most 5"),
        ("It was a 4, I think.", "the reply is not JSON"),
        ('{"score": 3, "why": "x"}', "must not have `why`"),
        ("", "the reply is not JSON"),
    ],
)
async def test_a_reply_that_does_not_fit_is_asked_for_once_more(
    tmp_path: Path, bad: str, problem: str
) -> None:
    plan, provider = make_plan(tmp_path, rate, **ONE), Scripted(answers(bad, '{"score": 4}'))
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    assert [state.values for state in states(plan).values()] == [{"score": 4, "at": "0.r"}]
    first, repair = provider.calls
    assert (repair.address, repair.purpose, repair.party) == ("0.r", "repair", "a")
    *before, said, asked = repair.request.messages
    assert tuple(before) == first.request.messages
    assert said == Message("assistant", bad or "(no answer)")
    assert problem in asked.text
    assert repair.request.schema == SCHEMA
    with Archive(plan.folder) as archive:
        rows = list(archive.calls())
        trial = rows[0].trial
        assert [(row.at, row.purpose, bool(row.unreadable)) for row in rows] == [
            ("0", "", True),
            ("0.r", "repair", False),
        ]
        assert all(row.cost_usd for row in rows), "both are paid"
        assert archive.request_of(trial, "0.r") == repair.request
        assert msgspec.json.decode(archive.raw_of(trial, "0"))["text"] == bad


async def test_a_second_bad_reply_fails_the_trial_with_both_paid(tmp_path: Path) -> None:
    plan, provider = make_plan(tmp_path, rate, **ONE), Scripted("no")
    await run(plan, provider)
    state = next(iter(states(plan).values()))
    assert (state.status, state.boundary) == ("failed", "provider")
    assert len(provider.sent) == 2
    assert len(settled(plan)) == 2


async def test_what_another_form_would_not_help_is_not_repaired(tmp_path: Path) -> None:
    def cut(call: Call) -> Answer:
        return Parsed(text='{"sco', finish="length")

    plan, provider = make_plan(tmp_path, rate, **ONE), Scripted(cut)
    await run(plan, provider)
    assert len(provider.sent) == 1


async def test_a_procedure_may_catch_what_could_not_be_repaired(tmp_path: Path) -> None:
    async def lenient(trial: Trial, lab: Lab) -> dict[str, object]:
        try:
            await lab.ask("a", "How warm was it?", schema=SCHEMA)
        except ReplyUnreadable as error:
            return {"note": error.what[:20]}
        return {}

    plan, provider = make_plan(tmp_path, lenient, **ONE), Scripted("no")
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    assert (await verify(plan)).differences == ()


async def test_a_replay_comes_to_the_same_repair_and_pays_nothing(tmp_path: Path) -> None:
    async def twice(trial: Trial, lab: Lab) -> dict[str, object]:
        one = await lab.ask("a", "How warm was it?", schema=SCHEMA)
        two = await lab.ask("a", "And how warm then?", schema=SCHEMA)
        return {"one": one.data, "two": two.data}

    def until_the_repair(call: Call) -> Answer:
        if call.purpose == "repair":
            raise BudgetExhausted("cut", level="study")
        return '{"score": 9}'

    plan = make_plan(tmp_path, twice, **ONE)
    await run(plan, Scripted(until_the_repair))
    assert len(settled(plan)) == 1
    provider = Scripted(answers('{"score": 1}', '{"score": 2}'))
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    assert [call.address for call in provider.calls] == ["0.r", "1"]
    assert (await verify(plan)).differences == ()


async def test_a_retried_trial_keeps_what_a_repair_brought(tmp_path: Path) -> None:
    async def then_break(trial: Trial, lab: Lab) -> dict[str, object]:
        one = await lab.ask("a", "How warm was it?", schema=SCHEMA)
        two = await lab.ask("a", "Again?", schema=SCHEMA)
        return {"one": one.data, "two": two.data}

    plan = make_plan(tmp_path, then_break, **ONE)
    await run(plan, Scripted(answers("no", '{"score": 1}', "no", "no")))
    assert next(iter(states(plan).values())).status == "failed"
    provider = Scripted(answers('{"score": 2}'))
    ran = await run(plan, provider, Options(retry_failed=True))
    assert ran.exit is Exit.DONE
    assert [call.address for call in provider.calls] == ["1"]


async def test_tools_are_offered_and_their_calls_come_back_from_the_journal(tmp_path: Path) -> None:
    async def look(trial: Trial, lab: Lab) -> dict[str, object]:
        messages = [Message("user", "What do you see?")]
        reply = await lab.ask("a", messages, tools=[TOOL])
        assert reply.finish == "tool"
        (wish,) = reply.tool_calls
        messages += [reply.message, Message("tool", "waves", answers=wish.id)]
        final = await lab.ask("a", messages, tools=[TOOL])
        return {"text": final.text, "arguments": wish.arguments, "carry": wish.carry}

    def answer(call: Call) -> Answer:
        if call.request.messages[-1].role == "tool":
            return "I see waves."
        return Parsed(text="", finish="tool", tool_calls=(WISH,))

    plan, provider = make_plan(tmp_path, look, **ONE), Scripted(answer)
    ran = await run(plan, provider)
    assert ran.exit is Exit.DONE
    state = next(iter(states(plan).values()))
    assert state.values == {"text": "I see waves.", "arguments": {"at": "the sea"}, "carry": "{}"}
    assert provider.calls[0].request.tools == (TOOL,)
    assert (await verify(plan)).differences == ()
    with Archive(plan.folder) as archive:
        row = next(iter(archive.calls()))
        assert (row.tools, row.finish) == ("look", "tool")
        assert archive.request_of(row.trial, "1") == provider.calls[1].request


async def test_what_a_server_returns_beside_the_message_is_kept_and_given_back(tmp_path: Path) -> None:
    activations: dict[str, object] = {"features": [[1, 0.5], [7, 2.0]], "layer": 19}

    async def read(trial: Trial, lab: Lab) -> dict[str, object]:
        reply = await lab.ask("a", "Say something.")
        return {"seen": reply.extras, "text": reply.text}

    def answer(call: Call) -> Answer:
        return Parsed(text="Something.", extras=activations, seed="honoured", dropped=("temperature",))

    plan = make_plan(tmp_path, read, **ONE)
    await run(plan, Scripted(answer))
    assert next(iter(states(plan).values())).values == {"seen": activations, "text": "Something."}
    assert (await verify(plan)).differences == ()
    with Archive(plan.folder) as archive:
        (row,) = archive.calls()
        assert (row.seed, row.dropped) == ("honoured", "temperature")
        (kept,) = archive.artefacts()
        assert (kept.name, kept.media_type) == ("extras:0", "application/json")
        assert msgspec.json.decode(archive.content_of(kept.content)) == activations
