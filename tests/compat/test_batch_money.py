"""The limits of a batch against a provider that keeps a book, at a real model's price: what was billed counts."""

import json
from collections.abc import Generator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Trialrun, trialrun
from tests.cli.far import Far
from tests.compat.batches import project

__all__ = ["trialrun"]
MODEL = "openai/gpt-4"
"""30 and 60 USD for a million tokens: a hundred runs of a small scenario cost some tens of dollars."""


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> Generator[Far]:
    far = Far({"prices": {MODEL: {"input": "30", "output": "60"}}})
    far.start()
    for name, value in far.emulator.settings("openai").items():
        monkeypatch.setenv(name, value)
    yield far
    far.stop()


def summary(file: Path) -> Any:
    return json.loads((file.parent / "batch-summary.json").read_text(encoding="utf-8"))


def test_a_batch_is_never_billed_more_than_its_limit_and_ends_with_a_higher_one(
    tmp_path: Path, trialrun: Trialrun, far: Far
):
    everybody = [{"type": "path", "path": f"parties.{name}.model", "name": name, "values": [MODEL]}
                 for name in ("regulator", "tech-company", "narrator")]  # fmt: skip
    file = project(
        tmp_path,
        variations=everybody,
        runs_per_variation=120,
        max_parallel=8,
        budget_limit=20.0,
        cost_per_run_limit=5.0,
    )
    name = str(file.relative_to(tmp_path))
    assert trialrun("run", name, "--json").exit == 4
    halted, billed = summary(file), far.emulator.book.total.cost_usd
    assert (halted["status"], halted["halt_reason"]) == ("halted", "budget_limit")
    assert "Budget limit reached" in halted["message"]
    assert Decimal(15) < billed <= Decimal(20), "the rest could not carry another call at its highest price"
    assert Decimal(str(halted["cost_summary"]["total_spent"])) == billed
    assert 0 < halted["runs_completed"] < 120
    assert halted["failed_runs"] == []

    file.write_text(file.read_text().replace("budget_limit: 20.0", "budget_limit: 200.0"), encoding="utf-8")
    assert trialrun("run", name, "--resume", "--json").exit == 0
    done = summary(file)
    assert (done["status"], done["runs_completed"]) == ("completed", 120)
    book = far.emulator.book.total
    assert Decimal(str(done["cost_summary"]["total_spent"])) == book.cost_usd
    runs = [json.loads(path.read_text()) for path in file.parent.glob("runs/*/costs.json")]
    assert sum(run["totals"]["calls"] for run in runs) == far.emulator.book.outcomes["answered"], (
        "nothing is paid twice"
    )
