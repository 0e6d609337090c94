"""A study that has run to its end is known to have, without a look at each of its trials; any other is looked at."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import trialrun as tr
from trialrun.app.endings import ended_in
from trialrun.app.exits import Exit
from trialrun.app.studies import load
from trialrun.core import facts as f
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal

STUDY: dict[str, object] = {
    "study": "ended",
    "parties": {
        "a": {"model": "openai/gpt-4.1-mini", "prompt": "You are {{ tone }}.", "values": {"tone": "x"}}
    },
    "factors": {"tone": {"parties.a.values.tone": ["kind", "cold"]}},
    "replicates": 4,
    "limits": {"open_trials": 1},
}


class Talk:
    """A procedure in which some replicates fail, and some stop the run."""

    def __init__(self) -> None:
        self.fails: set[int] = set()
        self.asked: list[str] = []

    @property
    def procedure(self) -> Any:
        async def talk(trial: Any, lab: Any) -> dict[str, object]:
            reply = await lab.ask("a", "Hello?")
            if trial.id != "walk":
                self.asked.append(trial.id)
                if trial.replicate in self.fails:
                    raise ValueError("on purpose")
            return {"length": len(reply.text)}

        return talk


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose states a run reads."""
    seen: list[str] = []
    real = SqliteJournal.states

    async def states(self: SqliteJournal, trials: Any) -> Any:
        seen.extend(trials)
        return await real(self, trials)

    monkeypatch.setattr(SqliteJournal, "states", states)
    return seen


def run(talk: Talk, folder: Path, **more: Any) -> tuple[Exit | None, list[tuple[int, int]]]:
    """How it ended, and the trials done and failed that were told on the way."""
    moments: list[tuple[int, int]] = []
    study = tr.study({**STUDY, **more.pop("study", {})}, procedure=talk.procedure, home=folder)
    ran = tr.run(
        study, lane="rehearsal", progress=lambda live: moments.append((live.done, live.failed)), **more
    )
    return ran.exit, moments


def test_a_finished_study_is_counted_and_not_walked(tmp_path: Path, looked_at: list[str]) -> None:
    talk = Talk()
    talk.fails = {3}
    assert run(talk, tmp_path)[0] is Exit.SOME_FAILED
    made, looked_at[:] = len(talk.asked), []
    exit_, moments = run(talk, tmp_path)
    assert exit_ is Exit.SOME_FAILED
    assert set(moments) <= {(0, 0), (6, 2)}
    assert (len(talk.asked), looked_at) == (made, [])
    talk.fails = set()
    assert run(talk, tmp_path, retry_failed=True)[0] is Exit.DONE
    assert len(talk.asked) == made + 2
    assert set(looked_at) >= {trial for trial in talk.asked if trial.endswith("r3")}


def test_more_replicates_and_changed_prompts_are_seen(tmp_path: Path) -> None:
    talk = Talk()
    assert run(talk, tmp_path)[0] is Exit.DONE
    assert run(talk, tmp_path, replicates=5)[0] is Exit.DONE
    assert len(talk.asked) == 10
    with pytest.raises(tr.TrialrunError, match="the plan changed"):
        run(talk, tmp_path, replicates=5, set={"parties.a.prompt": "You were {{ tone }}."})
    redone, _ = run(
        talk, tmp_path, replicates=5, set={"parties.a.prompt": "You were {{ tone }}."}, on_change="redo"
    )
    assert redone is Exit.DONE
    assert len(talk.asked) == 20


def test_a_count_is_not_taken_for_the_plan_where_it_may_be_of_other_replicates(tmp_path: Path) -> None:
    """Four of five are done, and four are wanted: which four, only the trials can say."""
    talk = Talk()
    assert run(talk, tmp_path)[0] is Exit.DONE
    folder = tmp_path / "results" / "ended.rehearsal"
    plan = load(folder, given={"talk": talk.procedure})
    with Archive(folder) as archive:
        tallies, entries = archive.tallies(), archive.facts_of("")
    ended = ended_in(plan, tallies, entries)
    assert ended is not None
    assert [dict(by_status) for by_status in ended.values()] == [{"done": 4}, {"done": 4}]
    declared = next(entry for entry in entries if isinstance(entry.fact, f.Declared))
    assert isinstance(declared.fact, f.Declared)
    more = msgspec.structs.replace(declared, fact=msgspec.structs.replace(declared.fact, replicates=5))
    assert ended_in(plan, tallies, [more, *entries]) is None
    assert ended_in(plan, tallies[:1], entries) is None
    other = replace(tallies[0], condition="another-condition")
    assert ended_in(plan, [other, tallies[1]], entries) is None
    for status in ("running", "planned", "parked", "stopped_by_budget"):
        left = replace(tallies[0], by_status={"done": 3, status: 1})
        assert ended_in(plan, [left, tallies[1]], entries) is None
