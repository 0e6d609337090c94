"""Studies through every provider's batch API, over real HTTP to the emulator, with the adapters that users have."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.batches.support import two_turns
from tests.behaviour.support import BASE, Function, OnePrice, make_plan
from trialrun.app.running import Options, Ran, run_study
from trialrun.app.studies import Plan
from trialrun.testing.emulator import Emulator

MODELS = {
    "openai": "openai/gpt-4.1-mini",
    "anthropic": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-2.5-flash",
    "vertex": "vertex/gemini-2.5-flash",
    "groq": "groq/llama-3.3-70b-versatile",
    "xai": "xai/grok-4-fast",
}
"""A model of each kind of batch API: the protocols of their own, and two of OpenAI's shape."""
KINDS = tuple(MODELS)
every_provider = pytest.mark.parametrize("kind", KINDS)
QUICK: dict[str, Any] = {
    "validating_s": 0.01,
    "queued_s": 0.01,
    "running_s": 0.05,
    "finalizing_s": 0.01,
    "cancelling_s": 0.05,
}


def script(*faults: dict[str, Any], batches: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Batches that take a tenth of a second, with these faults."""
    return {"batches": {**QUICK, **(batches or {})}, "faults": faults, **more}


def far_plan(folder: Path, kind: str, function: Function = two_turns, **changes: Any) -> Plan:
    """The base study with a model of this provider."""
    party = {**BASE["parties"]["a"], "model": MODELS[kind]}
    batch = {"poll_s": 0.05, **changes.pop("batch", {})}
    return make_plan(folder, function, lane="batch", parties={"a": party}, batch=batch, **changes)


def reach(monkeypatch: pytest.MonkeyPatch, server: Emulator, kind: str, *, key: str = "") -> None:
    """Send what goes to this provider to the emulator, with this key."""
    for name, value in server.settings(kind, key=key).items():
        monkeypatch.setenv(name, value)


async def run_far(
    plan: Plan,
    options: Options | None = None,
    *,
    tell: Callable[[str], None] = lambda _: None,
    **parts: Any,
) -> Ran:
    return await run_study(plan, options, prices=OnePrice(), tell=tell, **parts)
