"""The Python API: a study declared, planned, run and loaded, in scripts and beside a running event loop."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import polars as pl
import pytest

import trialrun as tr
from trialrun.app import studies
from trialrun.app.findings.rows import TableName, table
from trialrun.app.forks import fork
from trialrun.app.studies import Plan
from trialrun.core.errors import ConsentNeeded, StudyMistakes, UsageError
from trialrun.store.archive import Archive

DOCUMENT: dict[str, Any] = {
    "study": "greeting",
    "parties": {
        "host": {
            "model": "openai/gpt-5-mini",
            "prompt": "Be {{ manner }}.",
            "values": {"manner": ""},
            "max_tokens": 900,
        }
    },
    "factors": {"manner": {"parties.host.values.manner": ["warm", "cool"]}},
    "replicates": 3,
    "budget_usd": 2,
    "measures": ["polite", "kind", "words"],
    "prices": {"openai/gpt-5-mini": {"input": 1, "output": 2}},
}


async def greet(trial: tr.Trial, lab: tr.Lab) -> dict[str, object]:
    """A plain function as a procedure."""
    reply = await lab.ask("host", "Good morning!")
    lab.say("host", reply)
    lab.state("host", mood="fine")
    lab.measure("polite", True)
    lab.measure("kind", "warm" if trial.condition["manner"] == "warm" else "cool")
    return {"words": len(reply.text.split())}


@pytest.fixture
def study(tmp_path: Path) -> tr.Draft:
    return tr.study(DOCUMENT, procedure=greet, home=tmp_path)


def rehearse(study: Any, **options: Any) -> tr.Results:
    chosen: dict[str, Any] = {"lane": "rehearsal", "progress": False, **options}
    return tr.run(study, **chosen)


def test_a_plan_says_what_would_run_and_runs_nothing(study: tr.Draft, tmp_path: Path):
    planned = tr.plan(study)
    assert (planned.conditions, planned.trials, planned.calls) == (2, 6, (6, 6))
    assert planned.cost_usd is not None
    assert planned.ceiling_usd is not None
    assert 0 < planned.cost_usd[0] <= planned.cost_usd[1] <= planned.ceiling_usd
    assert list(tmp_path.iterdir()) == []


def test_a_run_gives_results_as_frames(study: tr.Draft, tmp_path: Path):
    results = rehearse(study)
    assert results.exit == tr.Exit.DONE
    assert results.folder == tmp_path / "results/greeting.rehearsal"
    trials = results.trials()
    assert isinstance(trials, pl.DataFrame)
    assert len(trials) == 6
    assert set(trials["factor.manner"]) == {"warm", "cool"}
    assert trials["outcome.words"].dtype == pl.Int64
    assert trials["measure.polite"].to_list() == [True] * 6
    assert trials["spent_usd"].dtype == pl.Float64
    assert set(trials["lane"]) == {"rehearsal"}
    assert len(results.messages()) == len(results.calls()) == len(results.states()) == 6
    measures = results.measures()
    assert set(measures.filter(pl.col("name") == "polite")["value"]) == {1.0}
    assert set(measures.filter(pl.col("name") == "kind")["label"]) == {"warm", "cool"}
    assert len(results.artefacts()) == 0


def test_frames_are_pandas_when_asked_for(study: tr.Draft):
    results = rehearse(study)
    trials = results.trials(frame="pandas")
    assert isinstance(trials, pd.DataFrame)
    assert trials.groupby("factor.manner")["outcome.words"].count().to_dict() == {"cool": 3, "warm": 3}
    assert str(trials["started_at"].dt.tz) == "UTC"
    with pytest.raises(UsageError, match="makes no data frames"):
        results.trials(frame="arrow")  # pyright: ignore[reportArgumentType]  # that is the test


def test_a_frame_without_rows_has_the_types_of_one_with_rows(study: tr.Draft):
    results = rehearse(study)
    empty, full = results.artefacts(), results.messages()
    assert empty.schema["trial"] == full.schema["trial"] == pl.String
    assert empty.schema["turn"] == full.schema["turn"] == pl.Int64


def test_the_summary_is_one_row_per_condition_and_measure(study: tr.Draft):
    summary = rehearse(study).summary()
    rows = summary.filter(pl.col("measure") == "words").sort("factor.manner")
    assert rows["factor.manner"].to_list() == ["cool", "warm"]
    assert all(low < value < high for low, value, high in rows.select("low", "value", "high").iter_rows())
    kinds = summary.filter(pl.col("measure") == "kind").sort("factor.manner")
    assert kinds.select("label", "n", "value").rows() == [("cool", 3, 1.0), ("warm", 3, 1.0)]


def test_whole_utterances_in_an_outcome_are_no_labels(tmp_path: Path):
    """Each would be a label of its own, with a share of one in n."""

    async def told(trial: tr.Trial, lab: tr.Lab) -> dict[str, object]:
        reply = await lab.ask("host", "Tell me about your day.")
        return {"story": reply.text, "kind": "long" if len(reply.text) > 5 else "short", "warm": True}

    document = {name: value for name, value in DOCUMENT.items() if name != "measures"}
    results = rehearse(tr.study(document, procedure=told, home=tmp_path))
    assert set(results.summary()["measure"]) == {"kind", "warm"}
    assert results.trials()["outcome.story"].str.len_chars().min() > 40, (
        "and the texts are in the table of trials"
    )


def test_results_can_be_loaded_later_and_verified(study: tr.Draft):
    ran = rehearse(study)
    results = tr.load(ran.folder, procedure=greet)
    assert results.exit == tr.Exit.DONE
    assert results.trials().equals(ran.trials())
    assert "6 of 6 trials done" in repr(results)
    verified = results.verify()
    assert (verified.trials, verified.differences) == (6, ())


def test_running_again_continues_and_asks_nothing_twice(study: tr.Draft):
    calls = rehearse(study).calls()
    assert rehearse(study).calls().equals(calls)
    assert len(rehearse(study, replicates=5).trials()) == 10


def test_what_stops_a_run_early_is_in_the_results(study: tr.Draft):
    results = rehearse(study, budget_usd="0.0005")
    assert results.exit == tr.Exit.BUDGET
    assert results.stopped_by is not None
    assert rehearse(study, budget_usd=1).exit == tr.Exit.DONE


def test_a_factor_that_changes_nothing_is_refused_before_anything_is_spent(study: tr.Draft, tmp_path: Path):
    dead = {**DOCUMENT, "factors": {"nothing": {"settings.nothing": [1, 2]}}}
    with pytest.raises(StudyMistakes, match="`nothing` changes nothing"):
        rehearse(tr.study(dead, procedure=greet_always, home=tmp_path))
    assert list(tmp_path.iterdir()) == []


async def greet_always(trial: tr.Trial, lab: tr.Lab) -> None:
    await lab.ask("host", "Good morning!")


def test_mistakes_come_as_errors_with_the_fix(study: tr.Draft, tmp_path: Path):
    with pytest.raises(StudyMistakes, match="replicas"):
        rehearse(tr.study({**DOCUMENT, "replicas": 3}, procedure=greet, home=tmp_path))
    with pytest.raises(UsageError, match="not plain data"):
        rehearse(tr.study({**DOCUMENT, "settings": {"x": greet}}, procedure=greet, home=tmp_path))
    with pytest.raises(UsageError, match="is no study"):
        tr.plan(42)
    rehearse(study)
    changed = tr.study({**DOCUMENT, "settings": {"new": 1}}, procedure=greet, home=tmp_path)
    with pytest.raises(ConsentNeeded) as error:
        rehearse(changed)
    assert "fix" in error.value.report()
    assert rehearse(changed, on_change="redo").exit == tr.Exit.DONE


def test_a_word_that_no_argument_knows_is_refused_and_not_taken_for_another(study: tr.Draft):
    misspelled: Any = "rehersal"
    for call in (tr.plan, tr.run):
        with pytest.raises(UsageError) as refused:
            call(study, lane=misspelled)
        assert refused.value.fix == "did you mean `rehearsal`?", "it must not run live"
    with pytest.raises(UsageError, match="`lane` cannot be `rehersal`"):
        tr.load("anywhere", lane=misspelled)
    wish: Any = "keeep"
    with pytest.raises(UsageError, match="`on_change` cannot be `keeep`"):
        rehearse(study, on_change=wish)


async def test_a_study_runs_beside_a_running_event_loop(study: tr.Draft):
    results = rehearse(study)
    assert results.exit == tr.Exit.DONE
    assert results.verify().differences == ()
    await asyncio.sleep(0)


def test_a_study_runs_in_a_thread_that_is_not_the_main_one(study: tr.Draft):
    ran: list[tr.Results] = []
    thread = threading.Thread(target=lambda: ran.append(rehearse(study)))
    thread.start()
    thread.join(60)
    assert ran[0].exit == tr.Exit.DONE


def test_progress_is_told_to_whoever_wants_it(study: tr.Draft):
    seen: list[int] = []
    rehearse(study, set={"rehearsal.speed": 20}, progress=lambda live: seen.append(live.planned))
    assert set(seen) == {6}


@pytest.mark.parametrize("has_loop", [False, True], ids=["script", "notebook"])
def test_ctrl_c_drains_and_then_raises(tmp_path: Path, has_loop: bool):
    code = f"""
import asyncio, sys
import trialrun as tr
async def greet(trial, lab):
    for _ in range(50):
        await lab.ask("host", "Good morning!")
study = tr.study({DOCUMENT!r}, procedure=greet)
def show(live):
    print(live.in_flight, flush=True)
def work():
    try:
        tr.run(study, lane="rehearsal", set={{"rehearsal.speed": 3}}, progress=show)
    except KeyboardInterrupt:
        print("interrupted", tr.load("results/greeting.rehearsal").table.money.doubts)
async def cell():
    work()
asyncio.run(cell()) if {has_loop} else work()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout is not None
        while started.stdout.readline() in ("0\n", "\n"):
            pass
        time.sleep(0.3)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted 0", err
    assert started.returncode == 0


@pytest.mark.parametrize(
    ("missing", "what"),
    [(["polars"], "DataFrame"), (["polars", "pandas"], "neither polars nor pandas is installed")],
    ids=["pandas", "neither"],
)
def test_a_missing_library_is_replaced_or_named_with_its_fix(study: tr.Draft, missing: list[str], what: str):
    folder = rehearse(study).folder
    hide = "".join(f"sys.modules[{name!r}] = None\n" for name in missing)
    code = (
        f"import sys\n{hide}import trialrun as tr\n"
        f"try:\n    print(type(tr.load({str(folder)!r}).trials()).__name__)\n"
        "except tr.TrialrunError as error:\n    print(error.report())\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": ""},
    )
    assert what in said.stdout
    if "pandas" in missing:
        assert "pip install 'trialrun[frames]'" in said.stdout


def test_messages_are_the_same_read_in_one_go_and_trial_by_trial(study: tr.Draft):
    results = rehearse(study)
    quick = results.messages()
    columns, rows = exported(results, "messages")
    assert quick.columns == list(columns)
    assert quick.drop("said_at").rows() == [row[:-1] for row in rows]
    for times in (quick["said_at"], results.messages(frame="pandas")["said_at"]):
        assert all(
            abs(one - row[-1]) <= timedelta(microseconds=1) for one, row in zip(times, rows, strict=True)
        )


def test_the_messages_of_a_study_with_forks_are_whole(study: tr.Draft, tmp_path: Path):
    results = rehearse(study)
    before = len(results.messages())
    trial = results.trials()["trial"][0]
    plan = plan_of_draft(study)
    asyncio.run(fork(plan, trial, turn=1, overrides={"parties.host.values.manner": "odd"}))
    assert len(rehearse(study).messages()) == before + 1


def exported(results: tr.Results, name: TableName) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """A table as exports have it."""
    with Archive(results.folder) as archive:
        made = table(archive, name, "rehearsal")
        return made.columns, [tuple(row) for row in made.rows]


def plan_of_draft(study: tr.Draft) -> Plan:
    return studies.plan_of(
        msgspec.json.encode(study.document).decode(),
        file="",
        home=study.home,
        lane="rehearsal",
        folder=None,
        overrides={},
        given=study.procedures,
    )


def test_a_traceback_says_where_and_how_to_mend_it(tmp_path: Path):
    (tmp_path / "slips.yaml").write_text(
        "study: slips\nprocedure: conversaton\nreplicate: 3\n", encoding="utf-8"
    )
    with pytest.raises(tr.TrialrunError) as caught:
        tr.run(tmp_path / "slips.yaml", lane="rehearsal")
    told = "".join(traceback.format_exception(caught.value))
    assert "did you mean `replicates`?" in told
    assert "did you mean `conversation`?" in told
    assert "slips.yaml:3" in told
    with pytest.raises(tr.TrialrunError) as caught:
        tr.load(tmp_path / "slip.yaml")
    assert "fix: did you mean" in "".join(traceback.format_exception(caught.value))
