"""docs/scenarios.md: its commands run, its study can be rehearsed, and its files are files of a scenario."""

import re
import shutil
from pathlib import Path

import pytest

from tests.cli import conftest
from tests.cli.conftest import Trialrun
from tests.procedures.worlds import plan_for, write_world

command_line = conftest.trialrun
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/scenarios.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return [text for name, text in found if name == language]


def test_the_commands_of_the_page_run(command_line: Trialrun):
    (shown,) = [text for text in blocks("") if "trialrun" in text]
    lines = [line.split("  ")[0] for line in shown.splitlines()]
    assert len(lines) == 2
    for line in lines:
        said = command_line(*line.split()[1:])
        assert said.exit == 0, said.err


def test_the_study_of_the_page_runs(command_line: Trialrun, tmp_path: Path):
    shutil.copytree(ROOT / "examples/scenarios/river-basin", tmp_path / "river-basin")
    (tmp_path / "study.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    assert command_line("plan", "study.yaml", "--json").json["trials"] == 2 * 2 * 10
    short = ("--replicates", "1", "--set", "settings.world.scenario.turns=2")
    assert command_line("rehearse", "study.yaml", *short, "--json").exit == 0


@pytest.mark.parametrize("text", blocks("yaml")[1:])
def test_every_file_that_is_shown_can_be_read(tmp_path: Path, text: str):
    name = "exogenous-events.yaml" if text.startswith("exogenous_events") else "metrics.yaml"
    (write_world(tmp_path / "well") / name).write_text(text, encoding="utf-8")
    plan = plan_for(tmp_path)
    assert plan.study.document["measures"] == (["trust"] if name != "metrics.yaml" else ["cooperation_level"])


def test_the_scenarios_that_are_named_are_there():
    for name in re.findall(r"`([a-z]+-[a-z-]+)` \(", PAGE):
        assert (ROOT / "examples/scenarios" / name / "scenario.yaml").is_file(), name
