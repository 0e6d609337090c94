"""Keys by name: several of them in turn, and none that no header can carry."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from tests.oracles.far_end import FarEnd
from tests.oracles.table import call_of
from trialrun.core import chance
from trialrun.core.errors import AuthRefused, UsageError
from trialrun.core.ports import Provider
from trialrun.providers.keys import Keys, keys_in
from trialrun.providers.registry import Providers
from trialrun.providers.vertex import DefaultCredentials, Vertex
from trialrun.testing.clock import ManualClock

THIS = call_of("plain", {"samples": "openai/gpt-4.1"})
MANY = [msgspec.structs.replace(THIS, key=chance.derive(b"keys", number)) for number in range(600)]


def provider_of(model: str, settings: dict[str, str]) -> Provider:
    return Providers("live", settings=settings, clock=ManualClock(auto=True)).provider_of(model)


@asynccontextmanager
async def reached(model: str, settings: dict[str, str]) -> AsyncGenerator[Provider, None]:
    providers = Providers("live", settings=settings, clock=ManualClock(auto=True))
    try:
        yield providers.provider_of(model)
    finally:
        await providers.close()


def test_numbered_keys_are_taken_until_one_is_missing() -> None:
    settings = {"A_KEY": " one ", "A_KEY_2": "two", "A_KEY_3": "three", "A_KEY_5": "five", "A_KEY_OLD": "old"}
    assert keys_in(settings, ["NO_KEY", "A_KEY"]) == (["one", "two", "three"], "")
    assert keys_in({}, ["A_KEY"]) == ([], "")
    assert keys_in({"A_KEY": ""}, ["A_KEY"]) == ([], "")


@pytest.mark.parametrize("value", ["with\nbreak", "schlüssel", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(value: str) -> None:
    with pytest.raises(AuthRefused, match="OPENAI_API_KEY_2") as caught:
        provider_of("openai/gpt-4.1", {"OPENAI_API_KEY": "k", "OPENAI_API_KEY_2": value})
    assert value not in caught.value.report()


def test_calls_spread_over_the_keys_and_a_further_attempt_takes_the_next() -> None:
    keys = Keys(["one", "two", "three"])
    taken = [keys.of(call, 1) for call in MANY]
    counts = Counter(secret.reveal() for secret in taken if secret)
    assert all(150 < count < 250 for count in counts.values())
    for call in MANY[:20]:
        tried = {secret.reveal() for attempt in (1, 2, 3) if (secret := keys.of(call, attempt))}
        assert tried == {"one", "two", "three"}
    assert [keys.of(call, 1) for call in MANY] == taken
    assert Keys().of(THIS, 1) is None
    assert "one" not in repr(keys)


@pytest.mark.parametrize("word", ["any", "x", "none", "EMPTY", "ollama", "usage"])
def test_a_word_in_the_place_of_a_key_changes_no_reply(word: str) -> None:
    """Servers that want no key get any word for one; it is no secret, and stands in many a sentence."""
    text = f'{{"usage": "many a word: {word}"}}'
    keys = Keys([word])
    assert keys.hide_in(text) == text
    assert keys.hide_in_bytes(text.encode()) == text.encode()
    assert Keys(["sk-12345"]).hide_in("It is sk-12345.") == "It is <key>."


async def test_all_keys_reach_the_far_end() -> None:
    reply: dict[str, Any] = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    async with FarEnd(reply).running() as far_end:
        settings = {"OPENAI_API_KEY": "k1", "OPENAI_API_KEY_2": "k2", "OPENAI_BASE_URL": f"{far_end.url}/v1"}
        async with reached("openai/gpt-4.1", settings) as ours:
            for call in MANY[:20]:
                await ours.send(call, ours.prepare(call), attempt=1, timeout_s=10)
    assert {headers["authorization"] for headers in far_end.headers} == {"Bearer k1", "Bearer k2"}


@pytest.mark.parametrize(
    ("model", "settings", "path"),
    [
        ("anthropic/m", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "URL"}, "/v1/messages"),
        ("anthropic/m", {"ANTHROPIC_API_KEY": "k", "ANTHROPIC_BASE_URL": "URL/v1/"}, "/v1/messages"),
        (
            "google/m",
            {"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "URL"},
            "/v1/models/m:generateContent",
        ),
        (
            "gemini/m",
            {"GEMINI_API_KEY": "k", "GEMINI_BASE_URL": "URL/v1beta"},
            "/v1beta/models/m:generateContent",
        ),
        (
            "vertex/m",
            {
                "GOOGLE_CLOUD_PROJECT": "p-1",
                "GOOGLE_CLOUD_LOCATION": "europe-west1",
                "VERTEX_ACCESS_TOKEN": "k",
                "GOOGLE_VERTEX_BASE_URL": "URL",
            },
            "/v1/projects/p-1/locations/europe-west1/publishers/google/models/m:generateContent",
        ),
        ("openai-responses/m", {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "URL/v1"}, "/v1/responses"),
        ("goodfire/m", {"GOODFIRE_API_KEY": "k", "GOODFIRE_BASE_URL": "URL/v1"}, "/v1/chat/completions"),
        ("llamacpp/m", {"LLAMACPP_BASE_URL": "URL/v1"}, "/v1/chat/completions"),
        ("lmstudio/m", {"LMSTUDIO_BASE_URL": "URL/v1"}, "/v1/chat/completions"),
    ],
)
async def test_each_provider_goes_where_its_settings_say(
    model: str, settings: dict[str, str], path: str
) -> None:
    async with FarEnd({}).running() as far_end:
        given = {name: value.replace("URL", far_end.url) for name, value in settings.items()}
        async with reached(model, given) as ours:
            this = call_of("plain", {"samples": model})
            await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
    assert far_end.paths == [path]


def test_vertex_says_what_it_needs() -> None:
    with pytest.raises(UsageError, match="project") as caught:
        provider_of("vertex/gemini-2.5-flash", {"VERTEX_ACCESS_TOKEN": "k"})
    assert "GOOGLE_CLOUD_PROJECT" in caught.value.fix


async def test_a_token_is_fetched_once_for_all_and_again_before_it_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lives = iter([4_000_000_000.0, 4_000_000_000.0])
    fetched: list[str] = []

    def fetch() -> tuple[str, float]:
        fetched.append(f"token-{len(fetched)}")
        return fetched[-1], next(lives)

    tokens = DefaultCredentials(fetch)
    async with FarEnd({}).running() as far_end:
        ours = Vertex("vertex", project="p", base_url=far_end.url, tokens=tokens)
        async with asyncio.TaskGroup() as group:
            for call in MANY[:10]:
                group.create_task(ours.send(call, b"{}", attempt=1, timeout_s=10))
        assert fetched == ["token-0"]
        monkeypatch.setattr("trialrun.providers.vertex.time", lambda: 3_999_999_800.0)
        await ours.send(THIS, b"{}", attempt=1, timeout_s=10)
        await ours.close()
    assert {headers["authorization"] for headers in far_end.headers} == {"Bearer token-0", "Bearer token-1"}
    assert "token-" not in f"{vars(ours)!r} {vars(tokens)!r}"
