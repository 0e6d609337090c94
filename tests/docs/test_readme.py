"""The README opens with a study that runs, commands that exist, and Python that works."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def trialrun(*arguments: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "trialrun", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_study_of_the_readme_gives_the_plan_and_the_table_that_it_shows(tmp_path: Path) -> None:
    (tmp_path / "warmth.yaml").write_text(blocks("yaml")[0], encoding="utf-8")
    shown = blocks("")[0]
    plan = trialrun("plan", "warmth.yaml", folder=tmp_path)
    assert plan.returncode == 0, plan.stderr
    for line in plan.stdout.splitlines():
        if line.startswith(("warmth:", "live", "batch")):
            assert line in shown
    rehearsed = trialrun("rehearse", "warmth.yaml", folder=tmp_path)
    assert rehearsed.returncode == 0, rehearsed.stderr
    table = [line for line in rehearsed.stdout.splitlines() if re.match(r"(warm|neutral) ", line)]
    assert len(table) == 4
    for line in table:
        assert line in shown, "the rehearsal is deterministic: the README shows exactly this"


def test_the_python_of_the_readme_runs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(blocks("python")[0], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in blocks("")[-2].splitlines() if "longer" in line]
    assert len(rows) == 2
    for row in rows:
        assert row in done.stdout, "the rehearsal is deterministic: the README shows exactly this"
    assert "Are you really sure?" in done.stdout, "what was said is in the table of messages"


def test_every_page_that_the_readme_links_is_there() -> None:
    root = Path(__file__).parents[2]
    missing = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not (root / link).exists()]
    assert not missing


def test_the_commands_of_the_readme_exist() -> None:
    script = Path(sys.executable).with_name("trialrun")
    assert script.exists() or shutil.which("trialrun")
    listed = trialrun("--help", folder=Path.cwd()).stdout
    for command in {
        *re.findall(r"^(?:\$|\./dev) trialrun (\w+)", README, re.MULTILINE),
        "status",
        "fork",
        "verify",
        "answer",
    }:
        assert re.search(rf"^\s+{command}\s", listed, flags=re.MULTILINE), command
