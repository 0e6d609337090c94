"""How quickly the doors open, and what they bring with them."""

import json
import resource
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import SMALL
from tests.cli.far import Far
from trialrun.app.exits import Exit
from trialrun.cli.entry import run
from trialrun.cli.group import SECTIONS
from trialrun.core.version import VERSION
from trialrun.store.archive import Archive

HEAVY = (
    "pydantic",
    "yaml",
    "aiohttp",
    "apsw",
    "jinja2",
    "rich",
    "polars",
    "pandas",
    "genai_prices",
    "asyncio",
    "msgspec",
)
COMMANDS = [name for names in SECTIONS.values() for name in names]


def modules_after(code: str) -> set[str]:
    """The top-level modules that are loaded when a fresh interpreter has run this."""
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys, json\n{code}\nprint(json.dumps(sorted(sys.modules)), file=sys.stderr)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in json.loads(said.stderr.splitlines()[-1])}


def cpu_s(*arguments: str, cwd: Path | None = None) -> float:
    """The least CPU time of some fresh processes: what it takes when nothing else is in the way."""
    took: list[float] = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, check=False, cwd=cwd)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


def test_importing_trialrun_brings_nothing_heavy():
    assert modules_after("import trialrun; trialrun.__version__; dir(trialrun)").isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], [], *([name, "--help"] for name in COMMANDS)], ids=" ".join
)
def test_help_brings_nothing_heavy(arguments: list[str]):
    run = f"with contextlib.redirect_stdout(io.StringIO()): run({arguments!r})"
    code = f"import io, contextlib\nfrom trialrun.cli.entry import run\n{run}"
    assert modules_after(code).isdisjoint(HEAVY)


def test_help_and_import_are_quick():
    assert cpu_s("-c", "import trialrun") < 0.150
    assert cpu_s("-m", "trialrun", "--help") < 0.300
    assert cpu_s("-m", "trialrun", "--version") < 0.200


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """A study of four trials, whose model answers twice and then knows the key no more."""
    (tmp_path / "live.yaml").write_text(
        "study: live\n"
        'parties: {a: {model: openai/gpt-5-mini, prompt: "You are {{ mood }}.", values: {mood: x}, max_tokens: 60}}\n'
        "factors: {mood: {parties.a.values.mood: [calm, gay]}}\n"
        "procedure: ./own.py:ask\nreplicates: 2\nbudget_usd: 1\nlimits: {open_trials: 1}\n",
        encoding="utf-8",
    )
    (tmp_path / "own.py").write_text(
        'async def ask(trial, lab):\n    await lab.ask("a", "Hello?")\n    return {"fine": True}\n',
        encoding="utf-8",
    )
    far = Far({"faults": [{"fault": "revoked", "after": 3}]})
    far.start()
    for name, value in far.emulator.settings("openai").items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    yield "live.yaml"
    far.stop()


def test_a_finished_study_is_found_finished_without_key_prices_or_client(live: str, monkeypatch: Any):
    far = Far({})
    far.start()
    try:
        monkeypatch.setenv("OPENAI_BASE_URL", far.emulator.settings("openai")["OPENAI_BASE_URL"])
        assert run(["run", live, "-q"]) == Exit.DONE
    finally:
        far.stop()
    monkeypatch.delenv("OPENAI_API_KEY")
    code = f"from trialrun.cli.entry import run\nassert run(['run', {live!r}, '-q']) == 0"
    loaded = modules_after(code)
    assert {"apsw", "asyncio"} <= loaded
    assert loaded.isdisjoint({"genai_prices", "aiohttp", "jinja2", "rich", "polars"})


def test_an_unfinished_study_is_checked_before_it_goes_on(
    live: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert run(["run", live, "-q"]) == Exit.STOPPED
    monkeypatch.delenv("OPENAI_API_KEY")
    with Archive(Path("results/live")) as archive:
        before = [(state.id, state.status) for state in archive.trials()]
    capsys.readouterr()
    assert run(["run", live, "-q"]) == Exit.STOPPED
    assert "there is no key for `openai`" in capsys.readouterr().err
    with Archive(Path("results/live")) as archive:
        assert [(state.id, state.status) for state in archive.trials()] == before
    monkeypatch.setenv("OPENAI_API_KEY", "again")
    monkeypatch.setattr("trialrun.providers.prices._entry_of", lambda *_: (None, ""))
    assert run(["run", live, "-q"]) == Exit.USAGE
    assert "nobody knows the price of openai/gpt-5-mini" in capsys.readouterr().err


def test_every_public_name_is_there_when_it_is_asked_for():
    import trialrun

    for name in trialrun.__all__:
        assert getattr(trialrun, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        trialrun.no_such_name  # noqa: B018  # that is the test


def test_the_version_is_one_line():
    said = subprocess.run(
        [sys.executable, "-m", "trialrun", "--version"], capture_output=True, text=True, check=True
    )
    assert said.stdout == f"trialrun {VERSION}\n"


def test_status_of_a_folder_is_quick(tmp_path: Path):
    (tmp_path / "small.yaml").write_text(SMALL, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "trialrun", "rehearse", "small.yaml", "-q"], cwd=tmp_path, check=True
    )
    assert cpu_s("-m", "trialrun", "status", "results/small.rehearsal", cwd=tmp_path) < 1.0
