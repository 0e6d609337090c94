"""Batches of PatientHub: the documented options, files, keys and columns, over a study that is like any other."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.behaviour.support import run as run_plan
from tests.behaviour.support import states
from tests.cli.conftest import Trialrun, trialrun
from tests.compat.hub import SMALL, Script, files, read, script
from tests.therapy.sessions import far_end
from trialrun.app import foreign
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.compat.patienthub.batch import (
    BatchConfig,
    plan_of,
    results_of,
    run_batch,
)
from trialrun.compat.patienthub.export import load_sessions, sessions_to_dataframe
from trialrun.compat.patienthub.format import OFFER
from trialrun.compat.patienthub.rows import places_of
from trialrun.core.calls import Call
from trialrun.core.errors import CallTimedOut, RequestRefused, StudyMistakes
from trialrun.testing.clock import ManualClock

__all__ = ["script", "trialrun"]


def mistakes(**flags: object) -> list[tuple[str, str]]:
    with pytest.raises(StudyMistakes) as caught:
        plan_of(flags, lane="rehearsal")
    return [(each.what, each.file) for each in caught.value.mistakes]


def test_the_defaults_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of({}, lane="live")
    spec = plan.specs.spec_of(next(iter(plan.design)))
    assert (plan.trials, spec.settings["max_turns"], plan.study.limits.open_trials) == (5, 20, 4)
    for role, method in (("client", "patientPsi"), ("therapist", "CBT")):
        party = spec.parties[role]
        assert (party.method, party.model, party.temperature) == (method, "openai/gpt-4o", 0.7)
    assert plan.folder.parent == Path("outputs/batch")
    time.strptime(plan.folder.name, "%Y-%m-%d_%H-%M-%S")
    assert BatchConfig() == BatchConfig(output_dir=BatchConfig().output_dir)
    assert (BatchConfig().num_runs, BatchConfig().max_turns, BatchConfig().max_workers) == (5, 20, 4)


def test_two_batches_of_one_second_have_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    first = Path(BatchConfig().output_dir)
    first.mkdir(parents=True)
    assert Path(BatchConfig().output_dir) != first


def test_a_flag_goes_before_the_file_and_the_file_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    text = yaml.safe_dump({"num_runs": 10, "max_turns": 25, "seed": 42, "clients": ["eeyore"]})
    plan = plan_of({"num_runs": 3, "clients": None}, lane="live", text=text)
    spec = plan.specs.spec_of(next(iter(plan.design)))
    assert plan.study.replicates == 3
    assert (spec.settings["max_turns"], plan.study.seed, spec.parties["client"].method) == (25, 42, "eeyore")
    assert plan.study.limits.open_trials == 4
    zero = plan_of({"seed": 0}, lane="live", text=text)
    assert zero.study.seed == 0


@pytest.mark.parametrize(
    ("given", "said", "place"),
    [
        ({"clients": "patientpsi"}, "there is no client `patientpsi`", "--clients"),
        ({"therapists": "CBT,CBT"}, "the therapist `CBT` stands twice", "--therapists"),
        ({"clients": ""}, "`clients`", "--clients"),
        ({"clients": "scripted"}, "no lines", "--clients"),
        ({"num_runs": 0}, "`num_runs`", "--num_runs"),
        ({"characters": {"patientPsi": "anton"}}, "`patientPsi` cannot play `anton`", "--characters"),
        ({"characters": {"eeyore": "nora-minimal"}}, "none of the clients", "--characters"),
    ],
)
def test_mistakes_are_said_with_their_place(given: dict[str, object], said: str, place: str):
    ((what, where),) = mistakes(**given)
    assert said in what
    assert where == place


def test_all_mistakes_of_a_file_are_said_at_once_with_their_lines(tmp_path: Path):
    text = "clients:\n  - patientPsi\n  - eyore\ntherapist: [CBT]\nnum_runs: many\n"
    with pytest.raises(StudyMistakes) as caught:
        plan_of({}, lane="live", text=text, file="b.yaml")
    found = {(each.line, each.what.split("`")[1]) for each in caught.value.mistakes}
    assert found == {(4, "therapist"), (5, "num_runs")}
    with pytest.raises(StudyMistakes) as caught:
        plan_of({}, lane="live", text=text[: text.index("therapist")], file="b.yaml")
    (mistake,) = caught.value.mistakes
    assert (mistake.line, mistake.fix) == (3, "did you mean `eeyore`?")


def test_a_batch_writes_the_documented_files(script: Script, tmp_path: Path):
    clients = "patientPsi,consistentMI"
    said = script("batch_simulate", "--clients", clients, *SMALL, "--output_dir", "out")
    assert said.exit == 0, said.err
    folder = tmp_path / "out.rehearsal"
    names = {f"{client}_CBT_run{run}.json" for client in clients.split(",") for run in (0, 1)}
    assert set(files(folder)) == names | {"batch_summary.json"}
    session = read(folder / "consistentMI_CBT_run1.json")
    assert {"profile", "messages", "num_turns", "usage"} <= session.keys()
    assert [message["role"] for message in session["messages"]] == ["therapist", "client"] * 3
    assert session["profile"]["motive"]["sentence"], "the whole profile, hidden parts too"
    assert session["num_turns"] == 3
    assert {state["party"] for state in session["states"]} == {"client"}
    usage = session["usage"]
    for role in ("client", "therapist"):
        one = usage[role]
        assert one["total_tokens"] == one["prompt_tokens"] + one["completion_tokens"] > 0
    assert usage["total_cost"] == pytest.approx(
        usage["client"]["total_cost"] + usage["therapist"]["total_cost"]
    )
    assert session["lane"] == "rehearsal"
    summary = read(folder / "batch_summary.json")
    assert (summary["total_runs"], summary["successful"], summary["failed"]) == (4, 4, 0)
    assert summary["by_combination"]["patientPsi_CBT"]["num_runs"] == 2
    assert summary["by_combination"]["patientPsi_CBT"]["avg_turns"] == 3
    assert summary["by_combination"]["patientPsi_CBT"]["std_turns"] == 0
    assert summary["rehearsal"] is True


def test_the_cost_of_all_sessions_is_what_the_ledger_says(script: Script, trialrun: Trialrun, tmp_path: Path):
    script("batch_simulate", "--clients", "consistentMI", "--therapists", "MI", *SMALL, "--output_dir", "out")
    spent = trialrun("status", "out.rehearsal", "--json").json["money"]["spent_usd"]
    summary = read(tmp_path / "out.rehearsal/batch_summary.json")
    assert summary["total_cost"] == pytest.approx(float(spent))


def test_runs_of_a_seed_are_equal_byte_for_byte_whatever_the_workers(script: Script, tmp_path: Path):
    made: dict[str, dict[str, bytes]] = {}
    for name, workers, seed in (("a", "1", "42"), ("b", "16", "42"), ("c", "4", "43")):
        more = (*SMALL, "--seed", seed, "--max_workers", workers, "--output_dir", name)
        assert script("batch_simulate", "--clients", "patientPsi,simPatient", *more).exit == 0
        made[name] = files(tmp_path / f"{name}.rehearsal")
    assert made["a"] == made["b"]
    assert all(made["a"][name] != made["c"][name] for name in made["a"] if "_run" in name)
    assert made["a"]["patientPsi_CBT_run0.json"] != made["a"]["patientPsi_CBT_run1.json"]


def test_without_a_seed_one_is_drawn_and_the_folder_keeps_it(script: Script, tmp_path: Path):
    arguments = ("--num_runs", "1", "--max_turns", "1", "--lane", "rehearsal", "--output_dir")
    for name in ("a", "b"):
        assert script("batch_simulate", *arguments, name).exit == 0
    kept = {name: yaml.safe_load((tmp_path / f"{name}.rehearsal/study.yaml").read_text()) for name in "ab"}
    assert kept["a"]["seed"] != kept["b"]["seed"]
    before = files(tmp_path / "a.rehearsal")
    assert script("batch_simulate", *arguments, "a").exit == 0
    assert files(tmp_path / "a.rehearsal") == before


def test_a_larger_batch_goes_on_in_the_same_folder(script: Script, trialrun: Trialrun, tmp_path: Path):
    folder = tmp_path / "out.rehearsal"
    assert script("batch_simulate", *SMALL, "--output_dir", "out").exit == 0
    before = files(folder)
    more = ("--num_runs", "4", "--therapists", "CBT,eliza")
    assert script("batch_simulate", *SMALL, *more, "--output_dir", "out").exit == 0
    after = files(folder)
    assert len(after) == 1 + 2 * 4
    assert all(after[name] == before[name] for name in before if "_run" in name)
    assert trialrun("verify", "out.rehearsal").exit == 0


def test_a_batch_that_its_budget_stops_says_so_and_goes_on(
    script: Script, trialrun: Trialrun, tmp_path: Path
):
    stopped = script("batch_simulate", *SMALL, "--num_runs", "6", "--budget", "0.10", "--output_dir", "out")
    assert stopped.exit == 4
    summary = read(tmp_path / "out.rehearsal/batch_summary.json")
    assert summary["total_runs"] == 6
    assert summary["unfinished"] == 6 - summary["successful"] > 0
    assert summary["failed"] == 0
    spent = trialrun("status", "out.rehearsal", "--json").json["money"]["spent_usd"]
    assert 0 < summary["total_cost"] <= 0.10
    assert summary["total_cost"] == pytest.approx(float(spent)), "runs that did not end were paid as well"
    assert trialrun("run", "out.rehearsal", "--budget", "5").exit == 0
    assert read(tmp_path / "out.rehearsal/batch_summary.json")["successful"] == 6


async def test_a_failed_run_does_not_stop_the_batch_and_is_the_documented_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    foreign.offer(OFFER)
    plan = plan_of({"num_runs": 3, "max_turns": 2, "seed": 1, "output_dir": "out"}, lane="live")
    broken = places_of(plan)[1].trial
    refused = True

    def talk(call: Call) -> Any:
        if refused and call.trial == broken and call.turn == 2:
            return RequestRefused("API rate limit exceeded")
        return "Well."

    assert (await run_plan(plan, far_end(talk))).exit is Exit.SOME_FAILED
    summary = read(tmp_path / "out/batch_summary.json")
    assert (summary["total_runs"], summary["successful"], summary["failed"]) == (3, 2, 1)
    (row,) = summary["failures"]
    assert row == {
        "status": "error",
        "client": "patientPsi",
        "therapist": "CBT",
        "run_id": 1,
        "error": "API rate limit exceeded",
    }
    kept = read(tmp_path / "out/patientPsi_CBT_run1.json")
    assert kept.items() >= row.items()
    assert len(kept["messages"]) == 2, "what was said until then"
    assert summary["by_combination"]["patientPsi_CBT"]["avg_turns"] == 2
    assert [session["run_id"] for session in load_sessions("out")] == [0, 2]
    assert [each["status"] for each in results_of(plan)] == ["success", "error", "success"]
    refused = False
    assert (await run_plan(plan, far_end(talk), Options(retry_failed=True))).exit is Exit.DONE
    assert read(tmp_path / "out/batch_summary.json")["successful"] == 3
    assert "error" not in read(tmp_path / "out/patientPsi_CBT_run1.json")


async def test_a_call_that_was_lost_stands_beside_the_cost_and_does_not_hide_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    foreign.offer(OFFER)
    plan = plan_of({"num_runs": 1, "max_turns": 2, "seed": 1, "output_dir": "out"}, lane="live")
    replies = iter([CallTimedOut("nobody answered")])
    ran = await run_plan(
        plan, far_end(lambda _: next(replies, "Well.")), clock=ManualClock(auto=True, grace_s=0.002)
    )
    assert ran.exit is Exit.DONE
    (state,) = states(plan).values()
    usage = read(tmp_path / "out/patientPsi_CBT_run0.json")["usage"]
    assert usage["total_cost"] == pytest.approx(float(state.spent_usd))
    assert usage["in_doubt"] == pytest.approx(float(state.held_usd))
    assert usage["in_doubt"] > 0
    summary = read(tmp_path / "out/batch_summary.json")
    assert (summary["total_cost"], summary["in_doubt"]) == (usage["total_cost"], usage["in_doubt"])


def test_sessions_without_a_model_want_no_key_and_wait_for_people(
    script: Script, trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    arguments = ("--clients", "user", "--therapists", "eliza", "--num_runs", "1", "--max_turns", "2")
    said = ["I cannot sleep.", "My sister says so."]
    for number, text in enumerate(said, start=1):
        assert script("batch_simulate", *arguments, "--output_dir", "out").exit == 5
        assert read(tmp_path / "out/batch_summary.json")["unfinished"] == 1
        assert not (tmp_path / "out/user_eliza_run0.json").exists()
        assert trialrun("answer", "out", str(number), text).exit == 0
    assert script("batch_simulate", *arguments, "--output_dir", "out").exit == 0
    session = read(tmp_path / "out/user_eliza_run0.json")
    assert [each["content"] for each in session["messages"] if each["role"] == "client"] == said
    assert session["usage"]["total_cost"] == 0
    assert sessions_to_dataframe(load_sessions(tmp_path / "out")).iloc[0]["patient_name"] == "user"


def test_a_batch_that_changed_asks_and_takes_the_answer(script: Script, tmp_path: Path):
    assert script("batch_simulate", *SMALL, "--output_dir", "out").exit == 0
    before = files(tmp_path / "out.rehearsal")
    other = (*SMALL, "--max_turns", "2", "--output_dir", "out")
    asked = script("batch_simulate", *other)
    assert asked.exit == 8
    assert "--redo" in asked.err
    assert files(tmp_path / "out.rehearsal") == before
    assert script("batch_simulate", *other, "--redo").exit == 0
    assert read(tmp_path / "out.rehearsal/patientPsi_CBT_run1.json")["num_turns"] == 2


def test_several_characters_of_a_client_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    names = ["mara-exam", "tomasz-dinner"]
    config = BatchConfig(
        characters={"patientPsi": names}, num_runs=2, max_turns=1, seed=1, output_dir=tmp_path / "out"
    )
    results = run_batch(config, lane="rehearsal", progress=False)
    assert [(row["run_id"], row["patient_name"]) for row in results] == [
        (0, "Mara"),
        (1, "Tomasz"),
        (2, "Mara"),
        (3, "Tomasz"),
    ]
    assert len(files(tmp_path / "out.rehearsal")) == 5
    frame = sessions_to_dataframe(load_sessions(tmp_path / "out.rehearsal"))
    assert frame.groupby("patient_name").mean()["num_turns"].to_dict() == {"Mara": 1, "Tomasz": 1}
    assert len(frame.groupby("therapist")) == 1


def test_a_batch_file_is_a_plan_for_every_command(trialrun: Trialrun, tmp_path: Path):
    document = {"clients": ["patientPsi"], "therapists": ["CBT"], "num_runs": 2, "max_turns": 2}
    (tmp_path / "batch_config.yaml").write_text(yaml.safe_dump(document))
    assert trialrun("plan", "batch_config.yaml", "--json").json["trials"] == 2
    assert trialrun("rehearse", ".").exit == 0
    folder = "outputs/batch/batch_config.rehearsal"
    assert (tmp_path / folder / "patientPsi_CBT_run1.json").exists()
    for command in ("status", "verify", "export", "doctor"):
        for study in ("batch_config.yaml", folder):
            assert trialrun(command, study, "--json").exit == 0, command
    rubric = Path(__file__).parents[2] / "examples/therapy/rubrics/client-turns.yaml"
    judged = trialrun("judge", folder, "--with", str(rubric), "--model", "openai/gpt-5-mini", "--json")
    assert judged.exit == 0, judged
    before: Mapping[str, bytes] = files(tmp_path / folder)
    assert len(before) == 3, "those who rate are no runs"
