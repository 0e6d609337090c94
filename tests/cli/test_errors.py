"""What is wrong, where, and the fix: on stderr for people, in the one document for programs, with an exit code."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import SMALL, Said, Trialrun, process
from trialrun.app.exits import Exit


def test_all_mistakes_of_a_study_file_come_together_without_a_traceback(trialrun: Trialrun, tmp_path: Path):
    (tmp_path / "bad.yaml").write_text(
        SMALL.replace("replicates: 3", "replicas: 3").replace("max_turns: 2", "max_turn: 2")
    )
    said = trialrun("run", "bad.yaml")
    assert said.exit == Exit.USAGE
    assert said.err.count("error:") == 2
    assert "bad.yaml:" in said.err
    assert "did you mean `replicates`" in said.err
    assert "Traceback" not in said.err
    data = trialrun("run", "bad.yaml", "--json").json
    assert data["exit"] == Exit.USAGE
    assert len(data["error"]["mistakes"]) == 2
    assert {mistake["line"] for mistake in data["error"]["mistakes"]} != {None}


def test_a_file_that_is_not_there_is_named_with_its_near_miss(trialrun: Trialrun, small: str):
    said = trialrun("status", "smal.yaml")
    assert said.exit == Exit.USAGE
    assert "there is no study file `smal.yaml`" in said.err
    assert "small.yaml" in said.err


@pytest.mark.parametrize("command", ["status", "watch", "stop", "verify", "export", "answer", "doctor"])
def test_a_command_that_looks_at_results_says_when_there_are_none(
    trialrun: Trialrun, small: str, command: str
):
    said = trialrun(command, small)
    assert said.exit == Exit.USAGE
    assert "has no results yet" in said.err
    assert "trialrun rehearse small.yaml" in said.err


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("pln",), "did you mean `plan`"),
        (("plan",), "missing argument"),
        (("plan", "x.yaml", "--replicas", "2"), "no such option"),
        (("plan", "x.yaml", "--replicates", "0"), "0 is not in the range"),
        (("plan", "x.yaml", "--replicates", "some"), "'some' is not a valid whole number"),
        (("run", "x.yaml", "--lane", "fast"), "'fast' is not one of"),
        (("run", "small.yaml", "--budget", "much"), "`--budget much` is no amount"),
        (("run", "small.yaml", "--set", "replicates"), "`--set replicates` has no value"),
        (("doctor", "--rebuild"), "need a study"),
        (("answer", "small.yaml", "1"), "a number and a text"),
    ],
    ids=str,
)
def test_a_misused_command_says_so_in_both_languages(
    trialrun: Trialrun, small: str, arguments: tuple[str, ...], what: str
):
    trialrun("rehearse", small, "-q")
    said = trialrun(*arguments)
    assert said.exit == Exit.USAGE
    assert what in said.err.lower()
    assert said.out == ""
    data = trialrun(*arguments, "--json").json
    assert what in data["error"]["what"].lower()
    assert data["error"]["fix"]
    assert data["exit"] == Exit.USAGE


def test_a_missing_key_stops_a_live_run_before_anything_is_spent(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    said = trialrun("run", small)
    assert said.exit == Exit.STOPPED
    assert "OPENAI_API_KEY" in said.err
    assert not (tmp_path / "results/small/study.db").exists()


def test_a_study_that_another_process_runs_is_locked(trialrun: Trialrun, small: str, tmp_path: Path):
    trialrun("rehearse", small, "-q")
    import fcntl

    with (tmp_path / "results/small.rehearsal/study.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        said = trialrun("rehearse", small)
    assert said.exit == Exit.STORE
    assert "trialrun watch" in said.err


def test_a_damaged_study_is_found_and_its_trial_done_anew(trialrun: Trialrun, small: str, tmp_path: Path):
    before = trialrun("rehearse", small, "--json").json
    db = sqlite3.connect(tmp_path / "results/small.rehearsal/study.db")
    (seq,) = db.execute("SELECT max(seq) FROM fact WHERE kind = 'said'").fetchone()
    db.execute("UPDATE fact SET body = '{}' WHERE seq = ?", (seq,))
    db.commit()
    db.close()
    said = trialrun("doctor", small)
    assert said.exit == Exit.STORE
    assert f"--quarantine {seq}" in said.out
    assert trialrun("doctor", small, "--quarantine", str(seq)).exit == 0
    assert trialrun("status", small).exit == Exit.INTERRUPTED
    after = trialrun("rehearse", small, "--json").json
    assert after["trials"] == before["trials"]
    assert [row["measures"] for row in after["conditions"]] == [
        row["measures"] for row in before["conditions"]
    ]
    assert trialrun("doctor", small).exit == 0


def test_a_rebuild_corrects_what_follows_from_the_journal(trialrun: Trialrun, small: str, tmp_path: Path):
    trialrun("rehearse", small, "-q")
    db = sqlite3.connect(tmp_path / "results/small.rehearsal/study.db")
    db.execute("UPDATE trial SET turns = 99 WHERE replicate = 1")
    db.commit()
    db.close()
    assert trialrun("doctor", small).exit == Exit.STORE
    data = trialrun("doctor", small, "--rebuild", "--json").json
    assert {each["column"] for each in data["corrected"]} == {"turns"}
    assert trialrun("doctor", small).exit == 0


def test_our_own_bug_is_one_paragraph_with_the_traceback_in_a_file(
    trialrun: Trialrun, with_procedure: Callable[..., str], tmp_path: Path
):
    study = with_procedure(
        "from trialrun.core.errors import KernelBug\n"
        'await lab.ask("a", "Hello?")\n'
        'if trial.id != "walk":\n    raise KernelBug("the moon is in the wrong house")'
    )
    said = trialrun("rehearse", study)
    assert said.exit == Exit.BUG
    assert "Trialrun itself broke" in said.err
    assert "the moon is in the wrong house" in said.err
    assert "Traceback" not in said.err
    (kept,) = (tmp_path / "results/own.rehearsal").glob("bug-*.txt")
    assert "Traceback" in kept.read_text()
    assert kept.name in said.err


def test_a_bug_before_there_is_a_folder_shows_its_traceback(tmp_path: Path):
    code = (
        "import sys; from trialrun.app import price_list\n"
        "price_list.quote_of = lambda *a, **k: 1 / 0\n"
        "from trialrun.cli.entry import run; sys.exit(run(['prices', 'a/b']))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert said.returncode == Exit.BUG
    assert "ZeroDivisionError" in said.stderr
    assert "Trialrun itself broke" in said.stderr


def test_a_reader_who_leaves_early_changes_nothing(small: str, tmp_path: Path):
    """`trialrun export … | head -1`."""
    with process("rehearse", small, cwd=tmp_path) as started:
        assert started.stdout is not None
        assert started.stderr is not None
        started.stdout.close()
        assert started.stderr.read().count("Traceback") == 0
        assert started.wait(30) == 0


def test_a_terminal_without_our_letters_gets_them_spelled(small: str, tmp_path: Path):
    trial = [sys.executable, "-m", "trialrun", "rehearse", small]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    said = subprocess.run(trial, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert said.returncode == 0
    assert said.stdout.isascii()


def test_settings_are_read_from_env_files_and_never_shown(trialrun: Trialrun, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/small.yaml").write_text(SMALL)
    (tmp_path / "sub/.env").write_text("GROQ_API_KEY=from-the-study\nXAI_API_KEY=sk-very-secret\n")
    (tmp_path / ".env").write_text("GROQ_API_KEY=from-here\nMISTRAL_API_KEY=sk-also-secret\n")
    code = (
        "import os; from pathlib import Path; from trialrun.app.environment import read_env\n"
        "taken = read_env(Path('sub/small.yaml'))\n"
        "print(sorted(taken), os.environ['GROQ_API_KEY'], os.environ['XAI_API_KEY'])"
    )
    environment = {**os.environ, "XAI_API_KEY": "from-the-environment"}
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert said.stdout == "['GROQ_API_KEY', 'MISTRAL_API_KEY'] from-the-study from-the-environment\n"
    doctor = subprocess.run(
        [sys.executable, "-m", "trialrun", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert "secret" not in doctor.stdout + doctor.stderr
    assert {
        "name": "key of mistral",
        "health": "fine",
        "found": "MISTRAL_API_KEY from .env",
        "fix": "",
    } in json.loads(doctor.stdout)["checks"]


def test_a_full_disk_and_a_folder_without_access_are_expected_errors(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    (tmp_path / "results").write_text("a file, where a folder should be")
    said: Said = trialrun("rehearse", small)
    assert said.exit in (Exit.STORE, Exit.USAGE)
    assert "Traceback" not in said.err
    assert "results" in said.err


def test_a_missing_file_is_not_taken_for_one_of_another_name(trialrun: Trialrun, small: str):
    said = trialrun("plan", "weather.yaml")
    assert "did you mean" not in said.err
    assert "there is `small.yaml`; `trialrun new study NAME` writes one" in said.err


@pytest.mark.parametrize(
    ("encoding", "line", "now"),
    [("cp1252", 2, "perhaps Windows-1252"), ("utf-16", 1, "UTF-16")],
)
def test_a_text_in_another_encoding_is_named_with_its_line(
    trialrun: Trialrun, tmp_path: Path, encoding: str, line: int, now: str
):
    text = SMALL.replace("how one is greeted", "how one is grüßt")
    (tmp_path / "other.yaml").write_bytes(text.encode(encoding))
    said = trialrun("plan", "other.yaml")
    assert said.exit == Exit.USAGE
    assert "`other.yaml` is not UTF-8 text" in said.err
    assert f"other.yaml:{line}\n" in said.err
    assert now in said.err
    (tmp_path / "host.md").write_bytes("You are a host.\n{{ manner }} Grüße.".encode(encoding))
    prompt = SMALL.replace('"You are a host. {{ manner }} Speak in one sentence."', "host.md")
    (tmp_path / "small.yaml").write_text(prompt, encoding="utf-8")
    said = trialrun("plan", "small.yaml")
    assert said.exit == Exit.USAGE
    assert "`host.md` is not UTF-8 text" in said.err
    assert "did you mean" not in said.err


def test_the_mark_that_editors_put_before_a_text_reaches_no_prompt(trialrun: Trialrun, tmp_path: Path):
    (tmp_path / "host.md").write_bytes("\ufeffYou are a host. {{ manner }}".encode())
    text = SMALL.replace('"You are a host. {{ manner }} Speak in one sentence."', "host.md")
    (tmp_path / "small.yaml").write_bytes(("\ufeff" + text).replace("\n", "\r\n").encode())
    said = trialrun("plan", "small.yaml", "--prompts", "--json")
    sent = [message["text"] for each in said.json["prompts"] for message in each["requests"][0]["messages"]]
    assert "You are a host. You are warm." in sent


def test_the_copies_of_the_plan_in_a_results_folder_mean_that_folder(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, "-q")
    folder = Path("results/small.rehearsal")
    wanted = trialrun("status", str(folder), "--json").json["folder"]
    for name in ("study.yaml", "resolved.yaml", "study.db"):
        assert trialrun("status", str(folder / name), "--json").json["folder"] == wanted


def test_a_command_alone_shows_its_help(trialrun: Trialrun):
    for arguments in ((), ("new",)):
        said = trialrun(*arguments)
        assert said.exit == Exit.USAGE
        assert said.err.startswith("Usage: trialrun")
        assert "error:" not in said.err


def test_a_folder_without_a_study_names_what_is_there(trialrun: Trialrun, small: str):
    said = trialrun("run", ".")
    assert said.exit == Exit.USAGE
    assert "there is `small.yaml`" in said.err


def test_the_last_dollar_is_told_with_the_way_on(trialrun: Trialrun, small: str):
    said = trialrun("rehearse", small, "--budget", "0.0030")
    assert said.exit == Exit.BUDGET
    assert "pass the study budget of 0.003 USD" in said.err
    assert "raise `budget_usd` in the study file, or say `--budget`" in said.err
