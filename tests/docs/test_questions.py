"""docs/questions.md: its studies are studies, its Python runs, and it names every setting, measure and key."""

import re
from pathlib import Path

import pytest

import trialrun as tr
from trialrun.app.material import material_names
from trialrun.procedures.questions import FACTS
from trialrun.procedures.questions.analysis import FIELDS, Group
from trialrun.procedures.questions.batch_analysis import batch_analysis
from trialrun.procedures.questions.calibration import FACTS as REPLY_FACTS
from trialrun.procedures.questions.stimuli import QUESTION_KEYS, TACTIC_KEYS

PAGE = (Path(__file__).parents[2] / "docs/questions.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_examples_run_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    for name, text in zip(("study.yaml", "judge.yaml"), blocks("yaml"), strict=True):
        Path(name).write_text(text, encoding="utf-8")
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "docs/questions.md", "exec"), names)  # our own page
    results = names["results"]
    assert isinstance(results, tr.Results)
    assert results.exit == 0
    said = capsys.readouterr().out
    assert "REHEARSAL" in said
    assert "not flipped after level 1" in said
    assert "kappa" in said


def test_every_setting_measure_and_key_is_documented():
    keys = [*FACTS.settings, *FACTS.measures, *QUESTION_KEYS, *TACTIC_KEYS, *FIELDS]
    keys += [*REPLY_FACTS.settings["reply"].keys, *batch_analysis([])]
    keys += ["corrected", "tipped", "changes", "by_level", "survival"]
    assert {"corrected", "tipped", "changes", "by_level", "survival"} <= set(Group.__dataclass_fields__)
    for key in keys:
        assert f"`{key}`" in PAGE, key
    for name in material_names():
        assert f"`{name}`" in PAGE, name


def test_every_way_in_which_a_trial_ends_is_documented():
    code = (Path(__file__).parents[2] / "src/trialrun/procedures/questions/asking.py").read_text(
        encoding="utf-8"
    )
    for reason in ("held", "flipped", "changed", "not_pressed", "asked", "unknown", "refused", "cut"):
        assert f'"{reason}"' in code
        assert f"`{reason}`" in PAGE
