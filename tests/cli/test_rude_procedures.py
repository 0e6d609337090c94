"""Procedures that want to end the program, or never to end themselves, through the door that a user has."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Trialrun, process
from trialrun.app.exits import Exit

STUBBORN = """
import asyncio
async def stubborn():
    while True:
        try:
            await asyncio.sleep(0.05)
        except BaseException:
            pass
"""


def test_a_procedure_that_exits_never_makes_an_unfinished_study_look_done(
    trialrun: Trialrun, with_procedure: Callable[..., str]
):
    study = with_procedure(
        'await lab.ask("a", "Hello?")\nif trial.replicate == 2:\n    import sys\n    sys.exit(0)'
    )
    said = trialrun("rehearse", study)
    assert said.exit == Exit.SOME_FAILED
    assert "1 of 2 trials done, 1 failed" in said.out
    assert "SystemExit: 0 at mine.py:" in said.out


def test_a_procedure_runs_as_it_stands_and_not_as_it_was_compiled_before(
    with_procedure: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of the same length, and saved in the same second: to Python its compiled code looks current."""
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for value in ("1", "2"):
        study = with_procedure(f'await lab.ask("a", "Hello?")\nreturn {{"value": {value}}}')
        os.utime(tmp_path / "mine.py", (1_700_000_000, 1_700_000_000))
        with process("rehearse", study, "--json", cwd=tmp_path) as running:
            out, _ = running.communicate(timeout=60)
        assert f'"value": {value}.0' in out, out


def test_an_exit_in_a_task_of_the_procedures_own_is_told_and_is_no_success(
    trialrun: Trialrun, with_procedure: Callable[..., str]
):
    study = with_procedure(
        "import asyncio, sys\n"
        "async def leave():\n"
        "    sys.exit(0)\n"
        'await lab.ask("a", "Hello?")\n'
        "if trial.replicate == 2:\n"
        "    await asyncio.create_task(leave())"
    )
    said = trialrun("rehearse", study, "--json")
    assert said.json["exit"] == said.exit == Exit.INTERRUPTED
    assert "sys.exit" in said.json["error"]["what"]
    assert trialrun("status", study).exit == Exit.INTERRUPTED


def test_a_procedure_file_that_exits_when_it_is_loaded_is_a_mistake(
    trialrun: Trialrun, with_procedure: Callable[..., str], tmp_path: Path
):
    study = with_procedure('await lab.ask("a", "Hello?")')
    with (tmp_path / "mine.py").open("a") as file:
        file.write("\nimport sys\nsys.exit(0)\n")
    said = trialrun("rehearse", study)
    assert said.exit == Exit.USAGE
    assert "cannot be loaded: SystemExit" in said.err


@pytest.mark.parametrize("whose", ["the trial's", "its own"])
def test_a_task_that_never_ends_does_not_keep_the_program(
    with_procedure: Callable[..., str], tmp_path: Path, whose: str
):
    stay = "await stubborn()" if whose == "the trial's" else "asyncio.create_task(stubborn())"
    body = f'{STUBBORN}await lab.ask("a", "Hello?")\nif trial.replicate == 2:\n    {stay}'
    study = with_procedure(body, more="limits: {trial_timeout_s: 1}")
    with process("rehearse", study, cwd=tmp_path) as started:
        out, err = started.communicate(timeout=60)
    assert started.returncode == (Exit.SOME_FAILED if whose == "the trial's" else Exit.DONE), err
    assert "Traceback" not in err
    assert "destroyed" not in err
    assert whose == "its own" or "did not stop within" in out


def test_a_procedure_that_hangs_is_found_out_once_and_not_for_every_condition(
    trialrun: Trialrun, with_procedure: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    from trialrun.app import walking
    from trialrun.core.study import Limits

    monkeypatch.setattr(walking, "_WALK_LIMITS", Limits(trial_timeout_s=0.2))
    study = with_procedure(
        'import asyncio\nwith open("walks", "a") as file:\n    file.write(".")\nawait asyncio.sleep(3600)',
        more="factors: {word: {parties.a.prompt: [one, two, three]}}",
    )
    said = trialrun("plan", study)
    assert said.exit == Exit.USAGE
    assert "took longer than 0.2 s" in said.err
    assert Path("walks").read_text() == ".", "the first walk says it; the others would only wait"
