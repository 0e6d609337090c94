"""`trialrun new` writes what plan, rehearse and run take at once, and a wheel has its templates."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.cli.conftest import Trialrun
from trialrun.app.exits import Exit

ROOT = Path(__file__).parents[2]


def test_a_new_study_can_be_planned_rehearsed_and_run_at_once(trialrun: Trialrun, tmp_path: Path):
    said = trialrun("new", "study", "bikes")
    assert said.exit == 0
    assert "trialrun plan bikes/study.yaml --prompts" in said.out
    assert {path.name for path in (tmp_path / "bikes").iterdir()} == {".gitignore", "prompts", "study.yaml"}
    assert "@" not in (tmp_path / "bikes/study.yaml").read_text()
    for arguments in (("plan",), ("rehearse",), ("run", "--lane", "rehearsal")):
        assert trialrun(arguments[0], "bikes/study.yaml", *arguments[1:]).exit == 0


def test_a_new_scenario_can_be_planned_rehearsed_and_run_at_once(trialrun: Trialrun, tmp_path: Path):
    assert trialrun("new", "scenario", "ovens").exit == 0
    assert (tmp_path / "ovens/scenario/actors/baker.yaml").exists()
    for arguments in (("plan",), ("rehearse",), ("run", "--lane", "rehearsal")):
        assert trialrun(arguments[0], "ovens/study.yaml", *arguments[1:]).exit == 0


@pytest.mark.parametrize("name", ["firm-answer", "Firm_answer", "x"])
def test_a_new_procedure_can_be_planned_rehearsed_and_run_at_once(
    trialrun: Trialrun, tmp_path: Path, name: str
):
    data = trialrun("new", "procedure", name, "--json").json
    assert data["study"] == f"{name.replace('-', '_')}.yaml"
    code = (tmp_path / data["study"]).with_suffix(".py").read_text()
    assert len(code.splitlines()) <= 25
    assert "@" not in code
    for arguments in (("plan",), ("rehearse",), ("run", "--lane", "rehearsal")):
        assert trialrun(arguments[0], data["study"], *arguments[1:]).exit == 0
    assert trialrun("verify", data["study"]).exit == 0


def test_a_new_client_can_be_planned_rehearsed_and_run_at_once(trialrun: Trialrun, tmp_path: Path):
    data = trialrun("new", "client", "shy-sam", "--json").json
    assert data["study"] == "shy_sam.yaml"
    assert "@" not in (tmp_path / "shy_sam.py").read_text()
    assert "trialrun" in (tmp_path / "shy_sam.py").read_text()
    for arguments in (("plan",), ("rehearse",), ("run", "--lane", "rehearsal")):
        assert trialrun(arguments[0], data["study"], *arguments[1:]).exit == 0
    assert trialrun("verify", data["study"]).exit == 0


def test_commands_that_are_shown_begin_as_the_user_began(trialrun: Trialrun, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRIALRUN_CALLED_AS", "./dev trialrun")
    said = trialrun("new", "study", "bikes")
    assert "./dev trialrun plan bikes/study.yaml --prompts" in said.out
    assert " trialrun rehearse bikes/study.yaml" in said.out
    assert "\ntrialrun " not in said.out
    assert " fix: `./dev trialrun rehearse bikes/study.yaml` or" in trialrun("status", "bikes/study.yaml").err
    data = trialrun("rehearse", "bikes/study.yaml", "--json").json
    assert data["next"][0]["command"] == "trialrun run bikes/study.yaml", "programs know what they call"


def test_nothing_that_exists_is_overwritten(trialrun: Trialrun, tmp_path: Path):
    (tmp_path / "mine.yaml").write_text("precious")
    said = trialrun("new", "procedure", "mine")
    assert said.exit == Exit.USAGE
    assert "`mine.yaml` is there already" in said.err
    assert not (tmp_path / "mine.py").exists(), "all files or none"
    assert (tmp_path / "mine.yaml").read_text() == "precious"


@pytest.mark.parametrize("name", ["../out", "a b", "1st", "", "a" * 50, "é"])
def test_a_name_that_is_no_name_is_refused(trialrun: Trialrun, tmp_path: Path, name: str):
    assert trialrun("new", "study", name).exit == Exit.USAGE
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_has_the_templates(tmp_path: Path):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    templates = ROOT / "src/trialrun/cli/templates"
    wanted = {
        f"trialrun/cli/templates/{path.relative_to(templates)}"
        for path in templates.rglob("*")
        if path.is_file()
    }
    assert wanted
    assert wanted <= set(names)
