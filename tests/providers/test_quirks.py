"""What families of models do not take: left out, said so, and told in the guide as in the table."""

import re
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.contracts import wires
from tests.oracles.table import SYSTEM, TURNS, call_of
from trialrun.core.calls import RawReply
from trialrun.core.errors import RequestRefused
from trialrun.core.ports import Provider
from trialrun.providers import quirks
from trialrun.providers.anthropic import Anthropic
from trialrun.providers.gemini import Gemini
from trialrun.providers.openai_chat import OPENAI, Dialect, OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses
from trialrun.providers.registry import ENDPOINTS

GUIDE = Path(__file__).parents[2] / "docs" / "providers.md"
CHAT = OpenAIChat("openai", base_url="http://x", dialect=OPENAI)
RESPONSES = OpenAIResponses("openai-responses", base_url="http://x")
CLAUDE = Anthropic("anthropic", base_url="http://x")
GEMINI = Gemini("google", base_url="http://x")
SPELLINGS = {
    "temperature": (b'"temperature":',),
    "top_p": (b'"top_p":', b'"topP":'),
    "stop": (b'"stop":', b'"stop_sequences":', b'"stopSequences":'),
}
ALL: dict[str, Any] = {"temperature": 0.5, "top_p": 0.9, "stop": ("END",)}


def dropped_by(ours: Provider, wire: wires.Wire, model: str, **settings: Any) -> tuple[str, ...]:
    """What the reply says was not sent, after a look that it was not."""
    this = call_of("plain", {"samples": f"x/{model}"})
    this = msgspec.structs.replace(this, request=msgspec.structs.replace(this.request, **settings))
    body = ours.prepare(this)
    reply = wire.reply(msgspec.json.decode(body), "Hi", False)
    dropped = ours.parse(RawReply(body=msgspec.json.encode(reply)), this.request).dropped
    for name, spellings in SPELLINGS.items():
        is_sent = any(spelling in body for spelling in spellings)
        assert is_sent == (name in settings and name not in dropped), (model, name)
    return dropped


@pytest.mark.parametrize(
    ("ours", "wire", "model", "dropped"),
    [
        (CHAT, wires.CHAT, "gpt-4.1", ()),
        (CHAT, wires.CHAT, "gpt-5-chat-latest", ()),
        (CHAT, wires.CHAT, "gpt-5.1", ()),
        (CHAT, wires.CHAT, "gpt-5.4-mini-2026-03-01", ()),
        (CHAT, wires.CHAT, "gpt-5-mini", ("temperature", "top_p", "stop")),
        (CHAT, wires.CHAT, "gpt-5.6-luna", ("temperature", "top_p", "stop")),
        (CHAT, wires.CHAT, "gpt-6-astra", ("temperature", "top_p", "stop")),
        (CHAT, wires.CHAT, "o3", ("temperature", "top_p", "stop")),
        (CHAT, wires.CHAT, "meta-llama/llama-3.3-70b", ()),
        (CHAT, wires.CHAT, "grok-3", ()),
        (CHAT, wires.CHAT, "grok-4-fast-non-reasoning", ()),
        (CHAT, wires.CHAT, "grok-3-mini", ("stop",)),
        (CHAT, wires.CHAT, "grok-4.6", ("stop",)),
        (CHAT, wires.CHAT, "grok-4-1-fast-reasoning", ("stop",)),
        (RESPONSES, wires.RESPONSES, "gpt-4.1", ("stop",)),
        (RESPONSES, wires.RESPONSES, "gpt-5-mini", ("temperature", "top_p", "stop")),
        (CLAUDE, wires.ANTHROPIC, "claude-3-haiku-20240307", ()),
        (CLAUDE, wires.ANTHROPIC, "claude-haiku-4-5", ("top_p",)),
        (CLAUDE, wires.ANTHROPIC, "claude-sonnet-4-6", ("top_p",)),
        (CLAUDE, wires.ANTHROPIC, "claude-opus-4-7", ("temperature", "top_p")),
        (CLAUDE, wires.ANTHROPIC, "claude-sonnet-5-5", ("temperature", "top_p")),
        (CLAUDE, wires.ANTHROPIC, "claude-mythos-preview", ("temperature", "top_p")),
        (GEMINI, wires.GEMINI, "gemini-2.5-flash", ()),
        (GEMINI, wires.GEMINI, "gemini-3.5-flash", ()),
        (GEMINI, wires.GEMINI, "gemini-3.5-flash-lite", ("temperature", "top_p")),
        (GEMINI, wires.GEMINI, "gemini-3.8-flash", ("temperature", "top_p")),
    ],
)
def test_what_a_model_refuses_is_left_out_and_said(
    ours: Provider, wire: wires.Wire, model: str, dropped: tuple[str, ...]
) -> None:
    assert dropped_by(ours, wire, model, **ALL) == dropped


def test_effort_decides_where_a_model_samples_only_without_reasoning() -> None:
    def with_effort(effort: str) -> tuple[str, ...]:
        return dropped_by(CHAT, wires.CHAT, "gpt-5.2", temperature=0.5, params={"reasoning_effort": effort})

    assert with_effort("none") == ()
    assert with_effort("low") == ("temperature",)


@pytest.mark.parametrize(
    ("ours", "wire", "model", "where"),
    [
        (CHAT, wires.CHAT, "gpt-5-mini", ("reasoning_effort",)),
        (RESPONSES, wires.RESPONSES, "gpt-5-mini", ("reasoning", "effort")),
        (CLAUDE, wires.ANTHROPIC, "claude-opus-5", ("output_config", "effort")),
        (GEMINI, wires.GEMINI, "gemini-3.6-flash", ("generationConfig", "thinkingConfig", "thinkingLevel")),
        (CHAT, wires.CHAT, "grok-4.3", ("reasoning_effort",)),
        (CHAT, wires.CHAT, "grok-3-mini", ("reasoning_effort",)),
        (CHAT, wires.CHAT, "grok-4-0709", None),
        (CHAT, wires.CHAT, "grok-4-fast-non-reasoning", None),
        (CHAT, wires.CHAT, "gpt-4.1", None),
        (CLAUDE, wires.ANTHROPIC, "claude-haiku-4-5", None),
        (GEMINI, wires.GEMINI, "gemini-2.5-flash", None),
    ],
)
def test_one_name_for_the_effort_is_spelled_as_each_provider_wants_it(
    ours: Provider, wire: wires.Wire, model: str, where: tuple[str, ...] | None
) -> None:
    params = {"reasoning_effort": "low"}
    assert dropped_by(ours, wire, model, params=params) == (() if where else ("reasoning_effort",))
    this = call_of("plain", {"samples": f"x/{model}"})
    this = msgspec.structs.replace(this, request=msgspec.structs.replace(this.request, params=params))
    found: Any = msgspec.json.decode(ours.prepare(this))
    for name in where or ():
        found = found[name]
    assert not where or found in ("low", "LOW")


def test_seeds_are_sent_honoured_or_unsupported() -> None:
    def seed(ours: Provider, wire: wires.Wire, **more: Any) -> str:
        this = call_of("plain", {"samples": "x/m"})
        reply = {**wire.reply(msgspec.json.decode(ours.prepare(this)), "Hi", False), **more}
        return ours.parse(RawReply(body=msgspec.json.encode(reply)), this.request).seed

    assert seed(CHAT, wires.CHAT) == "sent"
    assert seed(CHAT, wires.CHAT, system_fingerprint="fp_1") == "honoured"
    assert seed(GEMINI, wires.GEMINI) == "sent"
    assert seed(CLAUDE, wires.ANTHROPIC) == "unsupported"
    assert seed(RESPONSES, wires.RESPONSES) == "unsupported"
    assert seed(OpenAIChat("d", base_url="http://x", dialect=Dialect(seed=None)), wires.CHAT) == "unsupported"


def test_what_a_server_sends_beside_the_protocol_is_an_extra() -> None:
    this = call_of("plain", {"samples": "x/m"})
    body: dict[str, Any] = wires.CHAT.reply(msgspec.json.decode(CHAT.prepare(this)), "Hi", False)
    body["feature_activations"] = [[19, 0.5]]
    body["nothing"] = None
    body["choices"][0]["message"]["hidden"] = {"layer": 3}
    body["choices"][0]["logprobs"] = {"content": [{"token": "Hi", "logprob": -0.1}]}
    parsed = CHAT.parse(RawReply(body=msgspec.json.encode(body)), this.request)
    assert parsed.extras == {
        "feature_activations": [[19, 0.5]],
        "hidden": {"layer": 3},
        "logprobs": {"content": [{"token": "Hi", "logprob": -0.1}]},
    }


@pytest.mark.parametrize(
    ("ours", "params"),
    [
        (CHAT, {"max_completion_tokens": 9}),
        (RESPONSES, {"reasoning": {"effort": "high"}}),
        (RESPONSES, {"store": True}),
        (CLAUDE, {"max_tokens": 9}),
        (CLAUDE, {"speed": "fast"}),
        (GEMINI, {"generationConfig": {"maxOutputTokens": 9}}),
        (GEMINI, {"generationConfig": {"candidateCount": 3}}),
    ],
)
def test_params_cannot_undo_what_the_ceiling_rests_on(ours: Provider, params: dict[str, object]) -> None:
    this = call_of("plain", {"samples": "x/m"})
    this = msgspec.structs.replace(this, request=msgspec.structs.replace(this.request, params=params))
    with pytest.raises(RequestRefused, match="may not set"):
        ours.prepare(this)


def test_params_join_what_is_there() -> None:
    this = call_of("plain", {"samples": "x/m"})
    params = {"generationConfig": {"topK": 5}, "safetySettings": []}
    this = msgspec.structs.replace(this, request=msgspec.structs.replace(this.request, params=params))
    body = msgspec.json.decode(GEMINI.prepare(this))
    assert body["generationConfig"]["topK"] == 5
    assert body["generationConfig"]["maxOutputTokens"] == 100
    assert body["safetySettings"] == []


@pytest.mark.parametrize(
    ("ours", "wire"),
    [(CHAT, wires.CHAT), (RESPONSES, wires.RESPONSES), (CLAUDE, wires.ANTHROPIC), (GEMINI, wires.GEMINI)],
)
def test_ten_messages_cost_less_than_forty_microseconds(ours: Provider, wire: wires.Wire) -> None:
    text = "This is a sentence of the usual length for a turn of a conversation. " * 3
    messages = tuple(msgspec.structs.replace(message, text=text) for message in (SYSTEM, *TURNS))
    this = call_of("temperature 0.7", {"samples": "x/m"})
    this = msgspec.structs.replace(this, request=msgspec.structs.replace(this.request, messages=messages))
    body = msgspec.json.encode(wire.reply(msgspec.json.decode(ours.prepare(this)), text, False))
    raw, best = RawReply(body=body), 1.0
    for _ in range(20):
        began = time.process_time()
        for _ in range(100):
            ours.prepare(this)
            ours.meter(raw)
            ours.parse(raw, this.request)
        best = min(best, (time.process_time() - began) / 100)
    assert best < 40e-6


def test_the_guide_shows_the_table_of_families() -> None:
    rows = [
        f"| {family.protocol} | `{family.pattern}` | {_left_out(family)} | {family.why} |"
        for family in quirks.FAMILIES
    ]
    text = GUIDE.read_text(encoding="utf-8")
    shown = [
        line for line in text.splitlines() if line.startswith(tuple(f"| {name} | `" for name in quirks.LACKS))
    ]
    assert shown == [_escaped(row) for row in rows]
    for name, endpoint in ENDPOINTS.items():
        assert f"`{name}/" in text, name
        assert all(f"`{key}`" in text for key in endpoint.keys), name
    for protocol, lacks in quirks.LACKS.items():
        missing = ", ".join(lacks) or "nothing"
        row = (
            f"| `{protocol}` | {quirks.LIMIT_NAMES[protocol]} | {quirks.EFFORT_NAMES[protocol]} | {missing} |"
        )
        assert row in text


def _left_out(family: quirks.Family) -> str:
    said: list[str] = []
    if family.drops:
        said.append(", ".join(family.drops))
    if family.unless_effort:
        said[-1] += ", unless its effort is unset or `none`"
    if family.one_of:
        said.append("top_p beside a temperature")
    return "; ".join(said) or "nothing"


def _escaped(row: str) -> str:
    """Bars inside of code, as Markdown wants them."""
    return re.sub(r"`[^`]*`", lambda code: re.sub(r"\\?\|", r"\\|", code[0]), row)
