"""Batches of Scenario Lab on disk: a project with scenarios and experiments."""

import shutil
from pathlib import Path
from typing import Any

import yaml

from trialrun.compat.registry import offer_all

EXAMPLES = Path(__file__).parents[2] / "examples" / "scenarios"
SMALL = "test-regulation-negotiation"
FILE = Path("experiments/e/batch-config.yaml")


def project(home: Path, name: str = SMALL, *, text: str = "", **batch: Any) -> Path:
    """A batch file in a project of its own. What is not given is small, with two variations of one run."""
    offer_all()
    scenario = home / "scenarios" / name
    if not scenario.exists():
        shutil.copytree(EXAMPLES / name, scenario)
    file = home / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    document: dict[str, Any] = {
        "experiment_name": "An experiment",
        "base_scenario": f"scenarios/{name}",
        "max_parallel": 4,
        "variations": [two_models("regulator")],
        "output_dir": "experiments/e",
        **batch,
    }
    document = {key: value for key, value in document.items() if value is not None}
    file.write_text(text or yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return file


def two_models(actor: str) -> dict[str, Any]:
    return {
        "type": "actor_model",
        "actor": actor,
        "values": ["openai/gpt-4o-mini", "anthropic/claude-3-haiku"],
    }
