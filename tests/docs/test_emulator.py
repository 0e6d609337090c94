"""docs/emulator.md: every key and fault is documented, and every example runs."""

import re
import subprocess
import sys
from pathlib import Path

import yaml

from trialrun.testing.emulator import Batches, Cut, Entry, Limit, Rates, Rule, Script, script_from
from trialrun.testing.emulator.script import BATCH, ENDINGS, LINE, SAID, STEPS, WIRE

PAGE = (Path(__file__).parents[2] / "docs/emulator.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def first_cells() -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", PAGE, re.MULTILINE))))


def test_every_key_of_a_script_is_documented():
    for struct in (Script, Rule, Limit, Batches):
        assert set(struct.__struct_fields__) <= first_cells(), struct
    for struct in (Cut, Rates, Entry):
        for name in struct.__struct_fields__:
            assert f"`{name}`" in PAGE, (struct, name)


def test_every_fault_is_documented():
    assert first_cells() >= SAID | WIRE | ENDINGS | BATCH | LINE
    assert all(f"`{step}`" in PAGE for step in STEPS)


def test_the_script_of_the_page_is_a_script():
    for text in blocks("yaml"):
        script = script_from(yaml.safe_load(text))
        assert script.faults
        assert script.limits or script.batches != Batches()


def test_the_python_of_the_page_runs():
    for code in blocks("python"):
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", code],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.count("failed:") == 2
