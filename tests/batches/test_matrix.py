"""Everything that goes wrong with batches, at every provider: a study, the adapters that users have, and real HTTP.

What a person has to decide is decided, and then the study ends. Nothing is billed twice on the way, nothing is lost.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.batches.far import far_plan, reach, run_far, script
from tests.batches.test_doubts import decide, packs
from tests.behaviour.support import facts, states
from trialrun.app.exits import Exit
from trialrun.app.studies import Plan
from trialrun.core import facts as f
from trialrun.core.pack_facts import Decision
from trialrun.gateway.batches import courier
from trialrun.testing.emulator import Emulator

EACH = ("openai", "anthropic", "gemini", "vertex", "xai")
"""Each protocol; who has OpenAI's goes OpenAI's way."""
WITH_FILES = ("openai", "anthropic", "vertex", "xai")
"""Where results are fetched by a request of their own."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that goes wrong, how the run ends, and what a person then decides."""

    faults: tuple[dict[str, Any], ...]
    exit: Exit = Exit.DONE
    decision: Decision | None = None
    kinds: tuple[str, ...] = EACH
    batches: tuple[tuple[str, Any], ...] = ()
    exits: tuple[tuple[str, Exit], ...] = ()
    """Where it ends otherwise: by provider."""
    deadline_s: float | None = None


def once(**fault: Any) -> tuple[dict[str, Any], ...]:
    return (fault,)


ROWS: dict[str, Row] = {
    "a lost reply of the creation": Row(faults=once(at="create", fault="dropped_after", times=1)),
    "a creation that never arrived": Row(
        faults=once(at="create", fault="dropped_before", times=1),
        # Nothing can show that Anthropic has made none.
        exits=(("anthropic", Exit.PARKED),),
        decision="unbilled",
    ),
    "a lost reply of the upload": Row(faults=once(at="upload", fault="dropped_after", times=1)),
    "a line twice": Row(faults=once(fault="duplicate", nth=[2])),
    "a line missing": Row(faults=once(fault="missing", nth=[2]), exit=Exit.PARKED, decision="unbilled"),
    "a foreign line": Row(faults=once(fault="foreign", nth=[2]), exit=Exit.PARKED, decision="accept"),
    "an unreadable line": Row(
        faults=once(fault="unreadable", nth=[2]),
        exit=Exit.PARKED,
        decision="accept",
        kinds=("openai", "anthropic", "vertex"),
    ),
    "no output and only errors": Row(faults=once(at="line", fault="broken", batches=[1])),
    "some lines overloaded": Row(faults=once(at="line", fault="overloaded", nth=[1, 3])),
    "some lines refused": Row(faults=once(at="line", fault="refused", nth=[1]), exit=Exit.SOME_FAILED),
    "refused as a whole, by a line": Row(
        faults=once(fault="invalid", errors=1, nth=[1]),
        exit=Exit.SOME_FAILED,
        kinds=("openai", "xai"),
    ),
    "refused as a whole, without a reason": Row(
        faults=once(fault="invalid", errors=0, message="No.", nth=[1]),
        exit=Exit.STOPPED,
        kinds=("openai", "xai", "gemini", "vertex"),
    ),
    "no room in the queue": Row(faults=once(fault="enqueued", nth=[1]), kinds=("openai",)),
    "failed after it ran": Row(
        faults=once(fault="failed", nth=[1]),
        exit=Exit.STOPPED,
        exits=(("anthropic", Exit.DONE),),
        kinds=("openai", "anthropic", "gemini", "vertex"),
    ),
    "results that the provider may not write": Row(
        faults=once(fault="forbidden_output", nth=[1]), exit=Exit.STOPPED, kinds=("vertex",)
    ),
    "expired with a part": Row(
        faults=once(fault="expired", keep=0.5, nth=[1]), batches=(("expires_s", 0.4),)
    ),
    "expired in the queue": Row(faults=once(fault="stuck", nth=[1]), batches=(("expires_s", 0.4),)),
    "a cancel that ends with everything done": Row(
        faults=once(fault="late_cancel"), batches=(("running_s", 1.0),), deadline_s=0.3
    ),
    "cancelled in the middle": Row(faults=(), batches=(("running_s", 2.0), ("jitter", 0)), deadline_s=0.8),
    "counts that nobody tells": Row(faults=once(fault="no_counts")),
    "succeeded in part": Row(faults=once(fault="partly", keep=0.5, nth=[1])),
    "paused": Row(faults=once(fault="paused", seconds=0.3)),
    "a word that nobody knows": Row(
        faults=once(fault="odd_state", nth=[1]),
        kinds=("openai", "vertex"),  # looked at slowly, and every adapter's contract has it
        batches=(("running_s", 2.5),),
    ),
    "502 in the middle of the download": Row(
        faults=once(at="download", fault="bad_gateway", first=1), kinds=WITH_FILES
    ),
    "a download that is cut": Row(faults=once(at="download", fault="truncated", first=1), kinds=WITH_FILES),
    "results that are deleted": Row(
        faults=once(fault="gone", seconds=0, nth=[1]), exit=Exit.PARKED, decision="unbilled"
    ),
    "a spend limit in the middle": Row(
        faults=once(at="create", fault="spend_limit", after=1, times=1), exit=Exit.STOPPED
    ),
    "an organisation on hold": Row(
        faults=once(at="create", fault="on_hold", after=1, times=1), exit=Exit.STOPPED
    ),
    "a spend limit in a line": Row(
        faults=once(at="line", fault="spend_limit", batches=[2], nth=[1]), exit=Exit.STOPPED
    ),
}
CASES = [(name, kind) for name, row in ROWS.items() for kind in row.kinds]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[f"{kind}-{name}" for name, kind in CASES])
async def test_nothing_is_billed_twice_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
):
    monkeypatch.setattr(courier, "_LOOKUP_PAUSE_S", 0.05)
    row = ROWS[name]
    expected = dict(row.exits).get(kind, row.exit)
    batch: dict[str, Any] = {} if row.deadline_s is None else {"deadline_h": row.deadline_s / 3600}
    async with Emulator(script(*row.faults, batches=dict(row.batches))) as server:
        reach(monkeypatch, server, kind)
        plan = far_plan(tmp_path, kind, batch=batch)
        ran = await run_far(plan)
        assert ran.exit is expected, ran.stopped_by
        if expected is Exit.STOPPED:
            assert ran.stopped_by is not None
            assert ran.stopped_by.fix
            ran = await run_far(plan)
        if expected is Exit.PARKED:
            assert row.decision is not None
            assert "doubted" in {pack.stage for pack in packs(plan)}
            assert ran.live.held_usd > 0, "the money of what is in doubt stays held"
            before = len(server.book)
            assert (await run_far(plan)).exit is Exit.PARKED
            assert len(server.book) == before, "nothing is sent again before a person has said so"
            for pack in [pack for pack in packs(plan) if pack.stage == "doubted"]:
                await decide_about(plan, pack.id, row.decision)
            ran = await run_far(plan)
            if name == "an unreadable line":  # what it said is still missing, and that is another doubt
                await decide(plan, "unbilled")
                ran = await run_far(plan)
        assert ran.exit is (Exit.SOME_FAILED if expected is Exit.SOME_FAILED else Exit.DONE), ran.stopped_by
        await server.settle()
        arrived = Counter(entry.call for entry in server.book if entry.lane == "batch")
        assert max(arrived.values()) == 1, "each attempt arrives once"
        came = [
            entry
            for entry in server.book
            if entry.is_billed and entry.outcome not in ("missing", "unreadable")
        ]
        if name != "results that are deleted":
            billed = sum(entry.usage.tokens_in for entry in came if entry.usage)
            assert sum(settled(plan)) == billed, "what is settled is what was billed and came"
    assert ran.live.held_usd == 0
    assert all(pack.stage == "closed" for pack in packs(plan))


async def decide_about(plan: Plan, pack: str, decision: Decision) -> None:
    from trialrun.app.packs import decide as decided

    await decided(plan.folder, pack, decision)


def settled(plan: Plan) -> list[int]:
    """The input tokens of each attempt that was settled."""
    return [
        fact.usage.tokens_in
        for id_ in states(plan)
        for fact in facts(plan, id_)
        if isinstance(fact, f.Settled) and fact.usage
    ]
