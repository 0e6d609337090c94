"""docs/therapy.md: its studies, commands and Python run, and it names every method, setting and character."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.cli import conftest
from tests.cli.conftest import Trialrun
from trialrun.procedures.therapy.characters import KINDS
from trialrun.procedures.therapy.registry import METHODS
from trialrun.procedures.therapy.session import FACTS
from trialrun.procedures.therapy.shelf import SHELF

command_line = conftest.trialrun
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/therapy.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def test_the_study_and_the_commands_of_the_page_run_and_say_what_is_shown(
    command_line: Trialrun, tmp_path: Path
):
    for text in blocks("yaml"):
        name = re.match(r"# (\S+)\n", text)
        assert name
        (tmp_path / name[1]).write_text(text, encoding="utf-8")
    (shown,) = blocks("")
    for command, output in re.findall(r"^\$ trialrun ([^\n]+)\n((?:[^$\n][^\n]*\n)*)", shown, re.MULTILINE):
        said = command_line(*command.split())
        assert said.exit == 0, said.err
        for line in output.splitlines():
            assert line in said.out, command
    assert command_line("rehearse", "clients.yaml").exit == 0
    assert command_line("plan", "openness.yaml", "--set", "parties.client.character=hanna-mole").exit == 0


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for code in blocks("python"):
        exec(compile(code, "docs/therapy.md", "exec"), {})  # our own page


def test_everything_that_can_be_named_is_named():
    for ways in METHODS.values():
        for method, way in ways.items():
            assert f"`{method}`" in PAGE
            low, high = way.facts.calls
            row = next(line for line in PAGE.splitlines() if line.startswith("| `") and f"`{method}`" in line)
            assert (f"{low} to {high}" if low < high else f"| {low} |") in row, method
    for name in (*FACTS.settings, *SHELF, *KINDS):
        assert f"`{name}`" in PAGE, name


def test_the_example_study_rehearses(command_line: Trialrun):
    shutil.copytree(ROOT / "examples/therapy", "therapy", ignore=shutil.ignore_patterns("results"))
    assert command_line("plan", "therapy/study.yaml").exit == 0
    assert command_line("rehearse", "therapy/study.yaml", "--replicates", "1").exit == 0


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples/therapy/rubrics").glob("*.yaml")), ids=lambda p: p.stem
)
def test_the_rubrics_can_be_read_and_ask_for_what_characters_have(path: Path):
    rubric = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert rubric["subject"] in ("client", "therapist")
    ids = [item["id"] for item in rubric["items"]]
    assert len(set(ids)) == len(ids)
    known = set(KINDS["cognitive"].__struct_fields__)
    for item in rubric["items"]:
        assert item["paradigm"] in ("binary", "scalar", "categorical", "extraction")
        wanted = {"scalar": "scale", "categorical": "labels", "extraction": "fields"}.get(item["paradigm"])
        assert wanted is None or item[wanted]
        if item.get("truth"):
            assert set(item["fields"]) <= known
