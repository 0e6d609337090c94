"""The commands at the end of an output can be copied: they mean the same study, with the flags that it was given."""

import re
import shlex
from pathlib import Path

from tests.cli.conftest import Said, Trialrun
from tests.compat.batches import project
from trialrun.app.exits import Exit

FLAGS = ("--replicates", "2", "--seed", "7", "--set", "settings.max_turns=4")
WORDS = "--replicates 2 --seed 7 --set settings.max_turns=4"


def steps_of(said: Said) -> dict[str, str]:
    return {step["why"]: step["command"] for step in said.json["next"]}


def copied(trialrun: Trialrun, command: str, *more: str) -> Said:
    program, *arguments = shlex.split(command)
    assert program == "trialrun"
    return trialrun(*arguments, *more)


def test_a_plan_goes_on_with_its_flags(trialrun: Trialrun, small: str):
    out = trialrun("plan", small, *FLAGS, "--open", "3", "--budget", "4", "--lane", "batch").out
    flags = "--budget 4 --open 3 --replicates 2 --seed 7 --set settings.max_turns=4"
    for command in (
        f"trialrun plan {small} {flags} --lane batch --prompts ",
        f"trialrun rehearse {small} {flags} ",
        f"trialrun run {small} {flags} --lane batch ",
    ):
        assert command in out


def test_a_study_that_names_its_lane_needs_no_flag_for_it(trialrun: Trialrun, small: str, tmp_path: Path):
    (tmp_path / small).write_text((tmp_path / small).read_text() + "lane: batch\n")
    assert "--lane" not in trialrun("plan", small).out


def test_what_was_rehearsed_with_flags_is_run_with_them(trialrun: Trialrun, small: str):
    for said in (
        trialrun("rehearse", small, *FLAGS, "--speed", "5000", "-q", "--json"),
        trialrun("status", small, "--json"),
    ):
        command = steps_of(said)["the same with real models"]
        assert command == f"trialrun run {small} {WORDS}"
        assert copied(trialrun, command.replace(" run ", " plan "), "--json").json["trials"] == 4


def test_what_was_stopped_goes_on_with_the_flags_that_it_began_with(trialrun: Trialrun, small: str):
    said = trialrun("rehearse", small, *FLAGS, "--budget", "0.003", "--words", "0.9", "--json")
    assert said.exit == Exit.BUDGET
    command = steps_of(trialrun("status", small, "--json"))["go on with a higher budget"]
    assert command == f"trialrun rehearse {small} --words 0.9 {WORDS} --budget 0.006"
    done = copied(trialrun, command.replace("0.006", "1"), "--json")
    assert (done.exit, done.json["trials"]["done"]) == (Exit.DONE, 4)


def test_a_limit_of_one_trial_is_what_is_raised_when_it_stopped_the_trials(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    batch = str(project(tmp_path, max_parallel=None, cost_per_run_limit=0.0004).relative_to(tmp_path))
    text = (tmp_path / small).read_text()
    (tmp_path / small).write_text(re.sub("budget_usd: .*", "budget_usd: {study: 5, trial: 0.0004}", text))
    for study in (small, batch):
        said = trialrun("rehearse", study, "--json")
        assert said.exit == Exit.BUDGET
        steps = steps_of(said)
        assert "go on with a higher budget" not in steps, "the study has money enough"
        command = steps["go on with a higher limit"]
        assert command == f"trialrun rehearse {study} --set budget_usd.trial=0.0008"
        done = copied(trialrun, command.replace("0.0008", "1"), "--json")
        assert done.exit == Exit.DONE


def test_text_values_are_copied_as_they_were_meant(trialrun: Trialrun, small: str):
    values = {"tone": "a: b # c", "number": "007", "plain": "you're kind"}
    prompt = "You are a host. {{ manner }} {{ tone }} {{ number }} {{ plain }}"
    sets = [f"--set=parties.host.values.{key}={value!r}" for key, value in values.items() if key != "plain"]
    said = trialrun(
        "rehearse", small, *sets, "--set", f"parties.host.values.plain={values['plain']}",
        "--set", f"parties.host.prompt={prompt!r}", "--json",
    )  # fmt: skip
    assert said.exit == 0
    again = copied(
        trialrun, steps_of(said)["the same with real models"].replace(" run ", " plan "), "--prompts"
    )
    assert "You are a host. You are warm. a: b # c 007 you're kind" in again.out


def test_results_elsewhere_are_named_by_their_folder(trialrun: Trialrun, small: str):
    said = trialrun("rehearse", small, "--folder", "else where", "--json")
    steps = steps_of(said)
    assert set(steps) == {
        "what the factors do to the measures, with intervals",
        "tables of trials, messages, calls and measures",
        "replay everything offline and compare",
    }
    for command in steps.values():
        assert "'else where'" in command
        assert copied(trialrun, command, "--json").exit == 0


def test_going_on_from_the_folder_keeps_what_the_study_file_does_not_say(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, *FLAGS, "-q")
    trialrun("rehearse", "results/small.rehearsal", "--replicates", "3", "-q")
    command = steps_of(trialrun("status", small, "--json"))["the same with real models"]
    assert command == f"trialrun run {small} --replicates 3 --seed 7 --set settings.max_turns=4"
