"""From a study file to a table: plan, rehearse, run, status, export, verify, fork."""

import csv
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.conftest import Trialrun
from trialrun.app.exits import Exit


def test_a_plan_shows_trials_calls_money_and_time_before_anything_is_spent(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    said = trialrun("plan", small)
    assert said.exit == 0
    assert "2 conditions x 3 replicates = 6 trials, about 30 calls (6 of them by judges)" in said.out
    assert "budget 5.00" in said.out
    assert "at most about" in said.out
    assert not (tmp_path / "results").exists()


def test_a_plan_says_when_the_budget_will_not_do(trialrun: Trialrun, small: str):
    assert "budget 5.00;" in trialrun("plan", small).out
    assert "budget 0.0001 (NOT ENOUGH" in trialrun("plan", small, "--budget", "0.0001").out


def test_a_plan_shows_prompts_and_what_each_factor_changes_in_them(trialrun: Trialrun, small: str):
    said = trialrun("plan", small, "--prompts")
    assert "  You are a host. You are warm. Speak in one sentence." in said.out
    assert "manner: warm -> cool" in said.out
    assert "  -[host] system: You are a host. You are warm. Speak in one sentence." in said.out
    assert "  +[host] system: You are a host. You are cool and distant. Speak in one sentence." in said.out


def test_what_people_read_is_in_the_order_of_the_file(trialrun: Trialrun, small: str):
    """`warm` comes before `cool` there; trials go by names, so that no order in the file changes one."""
    said = trialrun("plan", small, "--prompts")
    assert "first requests of each party, for manner=warm" in said.out
    assert "manner: warm -> cool" in said.out
    trialrun("rehearse", small, "-q")
    rows = [line.split()[0] for line in trialrun("status", small).out.splitlines() if " of 3 " in line]
    assert rows == ["warm", "cool"]


def test_a_plan_lists_every_trial_in_planned_order(trialrun: Trialrun, small: str):
    listed = trialrun("plan", small, "--list", "--json").json["planned"]
    assert [each["planned"] for each in listed] == [1, 2, 3, 4, 5, 6]
    trialrun("rehearse", small, "-q")
    rows = csv.DictReader(trialrun("export", small, "--table", "trials", "--out", "-").out.splitlines())
    assert {row["trial"] for row in rows} == {each["trial"] for each in listed}
    assert listed[0]["trial"] in trialrun("plan", small, "--list").out
    assert [each["block"] for each in listed] == [1, 1, 2, 2, 3, 3]
    lines = [line for line in trialrun("plan", small, "--list").out.splitlines() if "block" in line]
    assert len(lines) == 6


def test_a_plan_is_one_json_document_with_money_as_text(trialrun: Trialrun, small: str):
    data = trialrun("plan", small, "--prompts", "--json").json
    assert (data["conditions"], data["trials"], data["exit"]) == (2, 6, 0)
    assert isinstance(data["all_trials"]["cost_usd"]["high"], str)
    assert isinstance(data["budget_usd"], str)
    assert {contrast["factor"] for contrast in data["contrasts"]} == {"manner"}


def test_a_factor_that_changes_nothing_is_refused_before_anything_is_spent(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    text = (tmp_path / small).read_text().replace("{{ manner }} ", "")
    (tmp_path / small).write_text(text)
    for command in ("plan", "run", "rehearse"):
        said = trialrun(command, small)
        assert said.exit == Exit.USAGE
        assert "`manner` changes nothing" in said.err
    assert not (tmp_path / "results").exists()


def test_a_rehearsal_ends_with_the_table_of_conditions(trialrun: Trialrun, small: str):
    said = trialrun("rehearse", small)
    assert said.exit == 0
    assert said.out.startswith("REHEARSAL")
    assert "small: done" in said.out
    lines = said.out.splitlines()
    (head,) = [line for line in lines if line.startswith("manner")]
    assert head.split() == ["manner", "done", "pleased", "guest.words", "USD"]
    warm, cool = [line for line in lines if line.startswith(("warm", "cool"))]
    assert warm.startswith("warm    3 of 3") or warm.split()[:4] == ["warm", "3", "of", "3"]
    assert cool.split()[:4] == ["cool", "3", "of", "3"]
    assert "6 of 6 trials done" in said.out
    assert "nothing was paid" in said.out
    assert "results/small.rehearsal" in said.out
    assert "trialrun run small.yaml" in said.out


def test_progress_without_a_terminal_is_a_line_at_once_and_one_at_the_end(trialrun: Trialrun, small: str):
    said = trialrun("rehearse", small)
    lines = [line for line in said.err.splitlines() if line.startswith("[")]
    assert len(lines) == 2
    assert "0 of 6 trials done" in lines[0]
    assert "6 of 6 trials done" in lines[1]


def test_quiet_is_silent_on_stderr_and_says_the_same_on_stdout(trialrun: Trialrun, small: str):
    loud = trialrun("rehearse", small)
    quiet = trialrun("rehearse", small, "--quiet")
    assert quiet.err == ""
    assert quiet.out == loud.out


def test_status_says_what_the_run_said(trialrun: Trialrun, small: str):
    ran = trialrun("rehearse", small)
    assert trialrun("status", small).out == ran.out
    assert trialrun("status", "results/small.rehearsal").exit == 0


def test_status_is_one_json_document(trialrun: Trialrun, small: str):
    trialrun("rehearse", small)
    data = trialrun("status", small, "--json").json
    assert data["rehearsal"] is True
    assert data["trials"]["done"] == data["trials"]["planned"] == 6
    assert Decimal(data["money"]["left_usd"]) == 5 - Decimal(data["money"]["spent_usd"])
    warm = next(row for row in data["conditions"] if row["levels"] == {"manner": "warm"})
    words = warm["measures"]["guest.words"]["numbers"]["mean"]
    assert words["low"] < words["value"] < words["high"]
    assert {label["label"] for label in warm["measures"]["pleased"]["labels"]} == {"yes", "no"}
    assert data["next"][0]["command"] == "trialrun run small.yaml"


def test_a_finished_study_run_again_asks_nothing_and_ends_with_the_same_table(trialrun: Trialrun, small: str):
    first = trialrun("rehearse", small, "--json").json
    again = trialrun("rehearse", small, "--json").json
    assert again == first


def test_more_replicates_on_the_command_line_extend_a_study(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, "-q")
    data = trialrun("rehearse", small, "--replicates", "5", "--json").json
    assert (data["trials"]["planned"], data["trials"]["done"]) == (10, 10)


def test_a_budget_that_is_too_small_stops_the_run_and_a_larger_one_continues_it(
    trialrun: Trialrun, small: str
):
    said = trialrun("rehearse", small, "--budget", "0.004")
    assert said.exit == Exit.BUDGET
    assert "stopped by the budget" in said.out
    assert "--budget" in said.out
    data = trialrun("status", small, "--json").json
    assert data["exit"] == Exit.BUDGET
    assert Decimal(data["money"]["spent_usd"]) <= Decimal("0.004")
    assert trialrun("rehearse", small, "--budget", "5").exit == 0


def test_a_budget_flag_keeps_the_caps_beside_it(trialrun: Trialrun, small: str, tmp_path: Path):
    text = (tmp_path / small).read_text().replace("budget_usd: 5", "budget_usd: {study: 5, trial: 0.0001}")
    (tmp_path / small).write_text(text)
    data = trialrun("rehearse", small, "--budget", "9", "--json").json
    assert Decimal(data["money"]["budget_usd"]) == 9
    assert data["trials"]["stopped_by_budget"] == 6


def test_a_flag_goes_before_the_file_and_is_checked_like_it(trialrun: Trialrun, small: str):
    assert (
        trialrun("plan", small, "--set", "settings.max_turns=1", "--json").json["all_trials"]["calls"]["high"]
        == 18
    )
    said = trialrun("plan", small, "--set", "settings.max_turn=1")
    assert said.exit == Exit.USAGE
    assert "did you mean `max_turns`" in said.err


def test_a_changed_plan_wants_consent_in_a_run_and_begins_a_rehearsal_anew(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    trialrun("run", small, "--lane", "rehearsal", "-q")
    said = trialrun("run", small, "--lane", "rehearsal", "--set", "settings.max_turns=1")
    assert said.exit == Exit.CONSENT
    assert "--redo" in said.err
    assert "max_turns" in said.err
    assert trialrun("run", small, "--lane", "rehearsal", "--set", "settings.max_turns=1", "--keep").exit == 0
    said = trialrun("rehearse", small, "--set", "settings.max_turns=3")
    assert said.exit == 0
    assert "begins anew" in said.err
    assert (tmp_path / "results/small.rehearsal.old/study.db").exists()


def test_a_rehearsal_that_goes_on_with_another_speed_is_the_same_rehearsal(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    trialrun("rehearse", small, "--speed", "1000", "-q")
    assert trialrun("rehearse", small).exit == 0
    assert not (tmp_path / "results/small.rehearsal.old").exists()


def test_results_go_where_the_folder_says(trialrun: Trialrun, small: str, tmp_path: Path):
    assert trialrun("rehearse", small, "--folder", "here", "-q").exit == 0
    assert trialrun("status", "here").exit == 0
    assert (tmp_path / "here/study.db").exists()


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_export_writes_every_table_in_every_format(trialrun: Trialrun, small: str, tmp_path: Path, form: str):
    trialrun("rehearse", small, "-q")
    data = trialrun("export", small, "--format", form, "--out", "out", "--json").json
    rows = {each["table"]: each["rows"] for each in data["tables"]}
    assert rows == {"trials": 6, "messages": 24, "calls": 30, "measures": 12, "states": 0, "artefacts": 0}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {f"{table}.{form}" for table in rows}


def test_exported_trials_can_be_read_as_a_table(trialrun: Trialrun, small: str, tmp_path: Path):
    trialrun("rehearse", small, "-q")
    trialrun("export", small, "--table", "trials")
    with (tmp_path / "results/small.rehearsal/tables/trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["lane"] for row in rows} == {"rehearsal"}
    assert {row["factor.manner"] for row in rows} == {"warm", "cool"}
    assert all(float(row["measure.guest.words"]) > 0 for row in rows)
    assert {row["measure.pleased"] for row in rows} <= {"yes", "no", ""}


def test_artefacts_are_kept_under_their_hash_and_never_under_a_name_of_the_trial(
    trialrun: Trialrun, with_procedure: Callable[..., str], tmp_path: Path
):
    study = with_procedure('lab.keep("../../escape.txt", "kept")\nawait lab.ask("a", "Hello?")', replicates=1)
    trialrun("rehearse", study, "-q")
    trialrun("export", study, "--out", "out")
    (content,) = (tmp_path / "out/artefacts").iterdir()
    assert content.read_text() == "kept"
    assert not list(tmp_path.rglob("escape.txt"))


def test_verify_finds_nothing_in_a_sound_study(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, "-q")
    said = trialrun("verify", small)
    assert (said.exit, said.out) == (0, "6 of 6 finished trials replay exactly\n")


def test_a_fork_is_planned_run_and_exported(trialrun: Trialrun, small: str, tmp_path: Path):
    trialrun("rehearse", small, "-q")
    trialrun("export", small, "--table", "trials", "--format", "jsonl", "--out", "out")
    first = json.loads((tmp_path / "out/trials.jsonl").read_text().splitlines()[0])["trial"]
    said = trialrun(
        "fork", small, first, "--at", "2", "--set", "parties.host.values.manner=Be rude.", "--json"
    )
    fork = said.json["trial"]
    assert fork.startswith(first)
    assert trialrun("rehearse", small).exit == 0
    data = trialrun("status", small, "--json").json
    assert data["trials"]["forks"] == 1
    assert data["trials"]["planned"] == 6
    trialrun("export", small, "--table", "trials", "--format", "jsonl", "--out", "out")
    rows = [json.loads(line) for line in (tmp_path / "out/trials.jsonl").read_text().splitlines()]
    assert [row["forked_from"] for row in rows if row["trial"] == fork] == [first]
    assert trialrun("verify", small).exit == 0


def test_a_fork_of_a_trial_that_is_not_there_says_so(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, "-q")
    said = trialrun("fork", small, "nobody-r1", "--at", "1", "--set", "settings.max_turns=1")
    assert said.exit == Exit.USAGE
    assert "there is no trial `nobody-r1`" in said.err


def test_failed_trials_are_counted_explained_and_taken_up_again(
    trialrun: Trialrun, with_procedure: Callable[..., str], tmp_path: Path
):
    study = with_procedure(
        'await lab.ask("a", "Hello?")\n'
        "from pathlib import Path\n"
        'if trial.id != "walk" and trial.replicate == 1 and not Path("mended").exists():\n'
        '    raise ValueError("broken on purpose")\n'
        'return {"fine": True}'
    )
    said = trialrun("rehearse", study)
    assert said.exit == Exit.SOME_FAILED
    assert "why trials failed" in said.out
    assert "broken on purpose" in said.out
    assert "--retry-failed" in said.out
    (tmp_path / "mended").touch()
    said = trialrun("rehearse", study, "--retry-failed")
    assert said.exit == 0
    assert "1.00 [" in said.out, "an outcome is summarised when no measure is declared"


def test_a_slip_in_the_name_of_a_model_is_told_with_what_was_meant(trialrun: Trialrun, small: str):
    text = Path(small).read_text(encoding="utf-8").partition("prices:")[0]
    slips = text.replace("model: openai/gpt-5-mini", "model: openai/gpt5mini", 1)
    Path(small).write_text(slips.replace("openai/gpt-4.1-mini", "opnai/gpt-4.1-mini"), encoding="utf-8")
    said = trialrun("plan", small).out
    assert "openai/gpt5mini (did you mean openai/gpt-5-mini?)" in said
    assert "opnai/gpt-4.1-mini (did you mean openai/gpt-4.1-mini?)" in said
    assert "there is no provider `opnai`" in trialrun("run", small).err
    Path(small).write_text(text.replace("openai/gpt-5-mini", "mylab/gpt-5-mini"), encoding="utf-8")
    assert "did you mean" not in trialrun("plan", small).out, "a server of one's own is no slip"


def test_all_keys_that_are_missing_are_named_at_once(trialrun: Trialrun, small: str):
    text = Path(small).read_text(encoding="utf-8").replace("openai/gpt-4.1-mini", "google/gemini-2.5-flash")
    Path(small).write_text(text, encoding="utf-8")
    said = trialrun("run", small)
    assert said.exit == Exit.STOPPED
    assert "there is no key for `google` and `openai`" in said.err
    assert "set `GEMINI_API_KEY` or `GOOGLE_API_KEY` and `OPENAI_API_KEY` in" in said.err


def test_a_study_without_a_budget_is_told_so_where_it_costs_money(trialrun: Trialrun, small: str):
    text = Path(small).read_text(encoding="utf-8")
    assert "NO BUDGET" not in trialrun("plan", small).out
    Path(small).write_text(text.replace("budget_usd: 5\n", ""), encoding="utf-8")
    assert ", NO BUDGET; " in trialrun("plan", small).out
    assert "NO BUDGET" in trialrun("plan", small, "--lane", "batch").out
    assert "NO BUDGET" not in trialrun("rehearse", small).err
    free = text.replace("budget_usd: 5\n", "").replace("openai/", "local/").replace("gpt-5-mini", "smollm2")
    Path(small).write_text(free.replace("gpt-4.1-mini", "smollm2").partition("prices:")[0], encoding="utf-8")
    assert "NO BUDGET" not in trialrun("plan", small).out


def test_a_dead_factor_is_told_once_and_at_its_line(trialrun: Trialrun, small: str):
    text = Path(small).read_text(encoding="utf-8").replace("{{ manner }} ", "")
    more = "  model: {parties.guest.model: [openai/gpt-4.1-mini, openai/gpt-5-mini]}\nreplicates:"
    Path(small).write_text(text.replace("replicates:", more), encoding="utf-8")
    said = trialrun("plan", small)
    assert said.exit == Exit.USAGE
    assert said.err.count("error:") == 1
    assert "`manner` changes nothing" in said.err
    assert "small.yaml:15\n" in said.err


def test_a_prompt_that_is_far_too_long_is_said_to_be_that(trialrun: Trialrun, small: str, tmp_path: Path):
    (tmp_path / "host.md").write_text("All the wisdom of the world. " * 80_000 + "{{ manner }}")
    text = Path(small).read_text(encoding="utf-8")
    Path(small).write_text(text.replace('"You are a host. {{ manner }} Speak in one sentence."', "host.md"))
    said = trialrun("plan", small)
    assert said.exit == Exit.USAGE
    assert "the prompt of `host` is longer than 2,000,000 characters" in said.err
    assert "give the value" not in said.err


def test_replicates_beyond_the_plan_are_told(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, "-q")
    out = trialrun("rehearse", small, "-q", "--replicates", "1").out
    assert "2 of 2 trials done, and 4 beyond the planned replicates, which count in the table" in out


def test_a_pass_whose_answers_broke_off_says_how_many_why_and_what_helps_and_is_no_success(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    rubric = "name: {}\nmodels: [openai/gpt-5-mini]\nmax_tokens: {}\nitems:\n"
    rubric += "  - {{id: open, question: How open is it?, paradigm: scalar, scale: [1, 5]}}\n"
    (tmp_path / "cut.yaml").write_text(rubric.format("cut", 5), encoding="utf-8")
    (tmp_path / "whole.yaml").write_text(rubric.format("whole", 800), encoding="utf-8")
    assert trialrun("rehearse", small).exit == 0
    said = trialrun("judge", small, "--with", "cut.yaml")
    assert said.exit == Exit.SOME_FAILED
    assert "6 ratings, 6 could not be read" in said.out
    assert "6 ×" in said.out
    assert "the reply was cut at max_tokens (5)" in said.out
    assert "give answers more room (`max_tokens` of the rubric)" in said.out
    assert f"trialrun judge {small} --retry-failed" in said.out
    assert trialrun("judge", small, "--with", "whole.yaml").exit == 0
    data = trialrun("judge", small, "--json").json
    assert data["exit"] == Exit.SOME_FAILED, (
        "the first pass still lacks its ratings, the second one ran all the same"
    )
    assert [one["pass"]["unanswered"] for one in data["passes"]] == [6, 0]
    assert data["passes"][0]["unanswered"][0]["ratings"] == 6
    assert trialrun("judge", small, "--retry-failed").exit == Exit.SOME_FAILED
    standing = trialrun("status", small).out
    assert "6 ratings missing for want of a usable answer" in standing
    assert f"trialrun judge {small} --retry-failed" in standing
