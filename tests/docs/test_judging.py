"""docs/judging.md: its commands run on the example study, and every key of a rubric is documented."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from trialrun.core.reading.rubric_file import ItemEntry, RubricFile, parse_rubric

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/judging.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def keys_under(heading: str) -> list[str]:
    table = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0]
    return re.findall(r"^\| `([a-z_]+)` \|", table, re.MULTILINE)


def test_every_key_of_a_rubric_is_documented_in_its_order() -> None:
    assert keys_under("Key") == list(RubricFile.model_fields)
    assert keys_under("Key of an item") == list(ItemEntry.model_fields)


def test_the_rubrics_of_the_page_are_rubrics() -> None:
    for text in blocks("yaml"):
        assert parse_rubric(text, file="page", read=lambda _: None).models


def test_the_commands_of_the_page_run_from_top_to_bottom(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/warmth", tmp_path / "warmth", ignore=shutil.ignore_patterns("results"))
    study = tmp_path / "warmth/study.yaml"
    diagram = "values: {worry_diagram: {fear: to be seen, belief: I am weak}, worry: "
    study.write_text(study.read_text().replace("values: {worry: ", diagram))
    (tmp_path / "rubrics").mkdir()
    for text in blocks("yaml"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    commands, gold = blocks("")
    (tmp_path / "gold.jsonl").write_text(gold)
    calibrate = re.search(r"`(trialrun judge STUDY --with [^`]* --calibrate [^`]*)`", PAGE)
    assert calibrate
    more = "trialrun judge warmth/study.yaml --with rubrics/diagram.yaml --json"
    said = ""
    for line in [*commands.splitlines(), calibrate[1].replace("STUDY", "warmth/study.yaml"), more]:
        ran = subprocess.run(
            [sys.executable, "-m", "trialrun", *line.split()[1:]],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, (line, ran.stderr)
        said = ran.stdout
    [found] = json.loads(said)["passes"]
    assert found["items"] == ["diagram.recovered"]
    assert (tmp_path / "warmth/results/warmth.rehearsal/tables/ratings.csv").exists()
