"""The examples of docs/python.md run, one after another, as a reader would run them."""

import re
import shutil
from pathlib import Path

import pytest

import trialrun as tr

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/python.md").read_text(encoding="utf-8")


def test_the_examples_run_from_top_to_bottom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("results"))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE):
        exec(compile(block, "docs/python.md", "exec"), names)  # our own page
    results = names["results"]
    assert isinstance(results, tr.Results)
    assert results.exit == 0
    assert results.verify().differences == ()
    assert len(results.trials()) == 12


def test_every_public_name_is_documented():
    for name in ("study", "plan", "run", "load", "Outcome", "TrialrunError"):
        assert f"tr.{name}" in PAGE
