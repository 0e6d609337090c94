"""Anthropic's official client beside our adapter.

What differs, and why:
- the client sends the key as a bearer token, we as `x-api-key`; the API takes both;
- the client knows no sampling settings any more; where a model still takes them, they go in as extra fields of the
  body, and under the older version of the API;
- the client leaves the type away beside an enum, which says the same without it.
"""

from typing import Any

import anthropic
import msgspec
import pytest

from tests.oracles.far_end import Body, FarEnd
from tests.oracles.table import CALLS, call_of, effort_of, system_of
from trialrun.core.calls import Message, RawReply, Request
from trialrun.core.errors import Unavailable
from trialrun.providers.anthropic import REPLY_TOOL, VERSION, VERSION_WITH_SAMPLING, Anthropic
from trialrun.providers.schemas import can_be_closed, closed

MODELS = {"samples": "anthropic/claude-opus-4-6", "reasons": "anthropic/claude-opus-5"}
GIVEN = anthropic.NOT_GIVEN


def client(far_end: FarEnd) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="k", base_url=far_end.url, max_retries=0)


def arguments(request: Request) -> dict[str, Any]:
    """The call as a user of the client would write it."""
    messages: list[Any] = []
    for message in request.messages:
        if message.role == "system":
            continue
        if message.answers:
            result = {"type": "tool_result", "tool_use_id": message.answers, "content": message.text}
            if messages[-1]["role"] == "user" and isinstance(messages[-1]["content"], list):
                messages[-1]["content"].append(result)
            else:
                messages.append({"role": "user", "content": [result]})
        elif message.tool_calls:
            blocks: list[Any] = [{"type": "text", "text": message.text}] if message.text else []
            blocks += [
                {"type": "tool_use", "id": wish.id, "name": wish.name, "input": wish.arguments}
                for wish in message.tool_calls
            ]
            messages.append({"role": "assistant", "content": blocks})
        else:
            messages.append({"role": message.role, "content": message.text})
    tools: list[Any] = []
    for tool in request.tools or ():
        made: dict[str, Any] = {
            "name": tool.name,
            "input_schema": tool.parameters or {"type": "object", "properties": {}},
        }
        tools.append({**made, "description": tool.description} if tool.description else made)
    config: dict[str, Any] = {}
    if effort_of(request):
        config["effort"] = effort_of(request)
    if request.schema:
        config["format"] = {"type": "json_schema", "schema": anthropic.transform_schema(request.schema)}
    samples = {
        name: value
        for name, value in (("temperature", request.temperature), ("top_p", request.top_p))
        if value is not None and "opus-5" not in request.model
    }
    return {
        "model": request.model.partition("/")[2],
        "messages": messages,
        "max_tokens": request.max_tokens,
        "system": system_of(request) or GIVEN,
        "stop_sequences": list(request.stop) or GIVEN,
        "tools": tools or GIVEN,
        "output_config": config or GIVEN,
        "extra_body": samples or None,
    }


def as_compared(body: Body) -> Body:
    """The body without what says nothing: an enum needs no type beside it."""

    def plain(part: Any) -> Any:
        if isinstance(part, list):
            return [plain(item) for item in part]
        if isinstance(part, dict):
            fields = {name: plain(value) for name, value in part.items()}
            return {
                name: value for name, value in fields.items() if not (name == "type" and "enum" in fields)
            }
        return part

    return plain(body)


async def test_bodies_are_those_of_the_client() -> None:
    async with FarEnd(reply([text("Hi")])).running() as far_end, client(far_end) as theirs:
        ours = Anthropic("anthropic", base_url=f"{far_end.url}/v1", key="k")
        for name in CALLS:
            this = call_of(name, MODELS)
            await theirs.messages.create(timeout=30, **arguments(this.request))
            await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
            expected, sent = far_end.bodies[-2:]
            assert as_compared(sent) == as_compared(expected), name
            assert far_end.paths[-1] == far_end.paths[-2]
            assert far_end.headers[-1]["x-api-key"] == "k"
            samples = "temperature" in sent or "top_p" in sent
            wanted = VERSION_WITH_SAMPLING if samples else far_end.headers[-2]["anthropic-version"]
            assert far_end.headers[-1]["anthropic-version"] == wanted, name
        await ours.close()
    assert {headers["anthropic-version"] for headers in far_end.headers} == {VERSION, VERSION_WITH_SAMPLING}


def test_what_cannot_be_enforced_is_described_as_the_client_does() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "score": {"type": "integer", "minimum": 1, "maximum": 5, "description": "How warm."},
            "words": {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 2},
            "either": {"oneOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["score"],
    }
    assert closed(schema) == anthropic.transform_schema(schema)
    assert can_be_closed(schema)


def test_several_types_become_several_forms() -> None:
    schema: dict[str, Any] = {"type": ["string", "null"], "maxLength": 3, "description": "A name."}
    forms = [
        {"type": "string", "description": "{maxLength: 3}"},
        {"type": "null", "description": "{maxLength: 3}"},
    ]
    assert closed(schema) == {"anyOf": forms, "description": "A name."}
    assert not can_be_closed({"type": "object", "additionalProperties": {"type": "integer"}})
    assert not can_be_closed({"type": "array", "items": {"type": "object"}})


def text(words: str) -> Body:
    return {"type": "text", "text": words, "citations": None}


def reply(content: list[Body], *, stop: str = "end_turn", usage: Body | None = None, **more: Any) -> Body:
    return {
        "id": "msg_01XFDUDYJgAACzvnptvVoYEL",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-6",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {"input_tokens": 25, "output_tokens": 9, **(usage or {})},
        **more,
    }


USE: Body = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"at": "the sea"}}
THINKING: Body = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
CACHED: Body = {
    "cache_creation_input_tokens": 100,
    "cache_read_input_tokens": 2000,
    "cache_creation": {"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 0},
    "output_tokens_details": {"thinking_tokens": 4},
    "service_tier": "standard",
}
DECLINED: Body = {"type": "refusal", "category": "bio", "explanation": "This may do harm."}
REPLIES: dict[str, tuple[Body, str]] = {
    "text": (reply([text("Hi ☃")]), "stop"),
    "two texts": (reply([text("One. "), text("Two.")]), "stop"),
    "after thinking": (reply([THINKING, text("Hi")]), "stop"),
    "cached": (reply([text("Hi")], usage=CACHED), "stop"),
    "a stop word": (reply([text("Hi")], stop="stop_sequence"), "stop"),
    "cut": (reply([text("Hi, I")], stop="max_tokens"), "length"),
    "the context is full": (reply([text("Hi")], stop="model_context_window_exceeded"), "length"),
    "refused": (reply([text("I")], stop="refusal", stop_details=DECLINED), "refusal"),
    "a tool": (reply([USE], stop="tool_use"), "tool"),
    "a tool after thinking": (reply([THINKING, text("I look."), USE], stop="tool_use"), "tool"),
    "a pause": (reply([text("...")], stop="pause_turn"), "other"),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_replies_are_read_as_by_the_client(name: str) -> None:
    (body, finish), request = REPLIES[name], call_of("plain", MODELS).request
    async with FarEnd(body).running() as far_end, client(far_end) as theirs:
        read = await theirs.messages.create(
            model="claude-opus-5", max_tokens=9, messages=[{"role": "user", "content": "x"}]
        )
    ours, raw = Anthropic("anthropic", base_url="http://x"), RawReply(body=msgspec.json.encode(body))
    parsed, usage = ours.parse(raw, request), ours.meter(raw)
    assert parsed.text == "".join(block.text for block in read.content if block.type == "text")
    assert parsed.finish == finish
    assert parsed.model == read.model
    assert parsed.seed == "unsupported"
    assert parsed.extras == {}
    uses = [block for block in read.content if block.type == "tool_use"]
    assert [(one.id, one.name, one.arguments) for one in parsed.tool_calls] == [
        (use.id, use.name, use.input) for use in uses
    ]
    assert usage is not None
    written, cached = read.usage.cache_creation_input_tokens or 0, read.usage.cache_read_input_tokens or 0
    assert usage.tokens_in == read.usage.input_tokens + written + cached
    assert usage.tokens_out == read.usage.output_tokens
    assert (usage.tokens_cached, usage.tokens_cache_write) == (cached, written)
    details = read.usage.output_tokens_details
    assert usage.tokens_reasoning == (details.thinking_tokens if details else 0)


def test_the_thinking_before_a_tool_goes_back_with_it() -> None:
    body, _ = REPLIES["a tool after thinking"]
    adapter, this = Anthropic("anthropic", base_url="http://x"), call_of("one tool", MODELS)
    parsed = adapter.parse(RawReply(body=msgspec.json.encode(body)), this.request)
    said = Message("assistant", parsed.text, parsed.tool_calls)
    again = msgspec.structs.replace(
        this, request=msgspec.structs.replace(this.request, messages=(*this.request.messages, said))
    )
    blocks = msgspec.json.decode(adapter.prepare(again))["messages"][-1]["content"]
    assert blocks == [THINKING, {"type": "text", "text": "I look."}, USE]


def test_an_older_model_gives_structured_replies_through_a_tool() -> None:
    adapter = Anthropic("anthropic", base_url="http://x")
    for model in ("claude-3-haiku-20240307", "claude-sonnet-4-20250514"):
        this = call_of("a closed schema", {"samples": f"anthropic/{model}"})
        body = msgspec.json.decode(adapter.prepare(this))
        assert body["tool_choice"]["name"] == REPLY_TOOL
        assert "output_config" not in body
        used: Body = {**USE, "name": REPLY_TOOL, "input": {"label": "no", "reason": "r"}}
        raw = RawReply(body=msgspec.json.encode(reply([used], stop="tool_use")))
        parsed = adapter.parse(raw, this.request)
        assert (parsed.data, parsed.finish, parsed.tool_calls) == ({"label": "no", "reason": "r"}, "stop", ())


@pytest.mark.parametrize("fault", ["500", "drop"])
async def test_one_call_is_one_request_whatever_happens(fault: Any) -> None:
    async with FarEnd({}, fault=fault).running() as far_end:
        ours, this = Anthropic("a", base_url=f"{far_end.url}/v1", key="k"), call_of("plain", MODELS)
        with pytest.raises(Unavailable):
            await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
        await ours.close()
    assert len(far_end.bodies) == 1
