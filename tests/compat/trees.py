"""Small batches of Scenario Lab, and the tree of files that one leaves."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.behaviour.support import OnePrice
from tests.procedures.worlds import cast_of
from trialrun.app.running import Control, Options, Ran, run_study
from trialrun.app.studies import load
from trialrun.core.calls import Call
from trialrun.testing.scripted import Scripted

SMALL_RUN = {
    *(f"world-state-{turn:03d}.md" for turn in range(4)),
    *(f"actor-{name}-{turn:03d}.md" for name in ("regulator", "tech-company") for turn in (1, 2, 3)),
    "metrics.json",
    "costs.json",
    "scenario-state.json",
    "scenario.log",
}


ANALYSIS = {"analysis-report.md", "metrics-analysis.json", "variation-statistics.json", "patterns.json"}


Answer = Callable[[Call, Mapping[str, Any]], dict[str, Any]]


def world(call: Call, properties: Mapping[str, Any]) -> dict[str, Any]:
    """A far end in which two are enough to agree in the last turn, if the trial's name says so."""
    if "world_state" not in properties:
        return {}
    agreed = "yes" if call.turn == 3 and call.trial.endswith("r1") else "no"
    state = f"Cooperation: {call.turn + 4}\nRobots on the streets: {10 * call.turn}\nRules agreed: {agreed}"
    return {"world_state": state}


async def run(
    file: Path, far_end: Scripted | None = None, *, control: Control | None = None, **more: Any
) -> Ran:
    return await run_study(
        load(file),
        Options(retry_failed=True),
        route=lambda _: far_end or cast_of(world),
        prices=OnePrice("10"),
        control=control,
        tell=lambda _: None,
        **more,
    )


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def data(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def tree(folder: Path, *, with_doubts: bool = True) -> dict[str, object]:
    """Everything that is shown, without times and without what is said about the way there."""
    without = "duration|duration_seconds" + ("" if with_doubts else "|in_doubt|in_doubt_usd")
    found: dict[str, object] = {}
    for name in sorted(files(folder)):
        path = folder / name
        if name.startswith(("runs/", "batch-", "analysis/")) and path.suffix in (".json", ".md"):
            text = path.read_text(encoding="utf-8")
            text = re.sub(r'"\d{4}-\d\d-\d\dT[\d:.]+Z"', '"TIME"', text)
            text = re.sub(rf'"({without})": [\d.e-]+', r'"\1": 0', text)
            found[name] = text
        elif name.endswith("scenario.log"):
            found[name] = path.read_text(encoding="utf-8").splitlines()[-1].split(" ", 1)[1]
    return found
