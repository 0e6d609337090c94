"""OpenAI's official client beside our two adapters for it."""

from typing import Any

import msgspec
import openai
import pytest

from tests.oracles.far_end import Body, FarEnd
from tests.oracles.table import CALLS, CLOSED, call_of, effort_of, system_of
from trialrun.core.calls import RawReply, Request
from trialrun.core.errors import Unavailable
from trialrun.providers.bodies import seed_of
from trialrun.providers.openai_chat import OPENAI, OpenAIChat
from trialrun.providers.openai_responses import OpenAIResponses

MODELS = {"samples": "openai/gpt-4.1-mini", "reasons": "openai/gpt-5-mini"}
GIVEN = openai.NOT_GIVEN


def client(far_end: FarEnd) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", base_url=f"{far_end.url}/v1", max_retries=0)


def is_reasoning(request: Request) -> bool:
    return "gpt-5" in request.model


def chat_arguments(request: Request, seed: int) -> dict[str, Any]:
    """The call as a user of the client would write it."""
    messages: list[Any] = []
    for message in request.messages:
        if message.answers:
            messages.append({"role": "tool", "tool_call_id": message.answers, "content": message.text})
        elif message.tool_calls:
            wishes = [
                {
                    "id": wish.id,
                    "type": "function",
                    "function": {
                        "name": wish.name,
                        "arguments": msgspec.json.encode(wish.arguments).decode(),
                    },
                }
                for wish in message.tool_calls
            ]
            messages.append({"role": "assistant", "content": message.text or None, "tool_calls": wishes})
        else:
            messages.append({"role": message.role, "content": message.text})
    tools: list[Any] = []
    for tool in request.tools or ():
        function: dict[str, Any] = {"name": tool.name}
        if tool.description:
            function |= {"description": tool.description}
        if tool.parameters:
            function |= {"parameters": tool.parameters}
        tools.append({"type": "function", "function": function})
    strict = request.schema is not None and "additionalProperties" in request.schema
    format_: Any = {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": request.schema, "strict": strict},
    }
    samples = not is_reasoning(request)
    return {
        "model": request.model.partition("/")[2],
        "messages": messages,
        "max_completion_tokens": request.max_tokens,
        "seed": seed,
        "temperature": GIVEN if request.temperature is None or not samples else request.temperature,
        "top_p": GIVEN if request.top_p is None or not samples else request.top_p,
        "stop": list(request.stop) or GIVEN,
        "reasoning_effort": effort_of(request) or GIVEN,
        "tools": tools or GIVEN,
        "response_format": format_ if request.schema else GIVEN,
    }


def responses_arguments(request: Request) -> dict[str, Any]:
    items: list[Any] = []
    for message in request.messages:
        if message.role == "system":
            continue
        if message.answers:
            items.append({"type": "function_call_output", "call_id": message.answers, "output": message.text})
            continue
        if message.text:
            items.append({"role": message.role, "content": message.text})
        for wish in message.tool_calls:
            arguments = msgspec.json.encode(wish.arguments).decode()
            items.append(
                {"type": "function_call", "call_id": wish.id, "name": wish.name, "arguments": arguments}
            )
    tools: list[Any] = []
    for tool in request.tools or ():
        made: dict[str, Any] = {
            "type": "function",
            "name": tool.name,
            "parameters": tool.parameters or {"type": "object", "properties": {}},
            "strict": False,
        }
        tools.append({**made, "description": tool.description} if tool.description else made)
    samples = not is_reasoning(request)
    strict = request.schema is not None and "additionalProperties" in request.schema
    text: Any = {
        "format": {"type": "json_schema", "name": "reply", "schema": request.schema, "strict": strict}
    }
    return {
        "model": request.model.partition("/")[2],
        "input": items,
        "instructions": system_of(request) or GIVEN,
        "max_output_tokens": request.max_tokens,
        "store": False,
        "temperature": GIVEN if request.temperature is None or not samples else request.temperature,
        "top_p": GIVEN if request.top_p is None or not samples else request.top_p,
        "reasoning": {"effort": effort_of(request)} if effort_of(request) else GIVEN,
        "tools": tools or GIVEN,
        "text": text if request.schema else GIVEN,
    }


async def test_chat_bodies_are_those_of_the_client() -> None:
    async with FarEnd(chat("Hi")).running() as far_end, client(far_end) as theirs:
        ours = OpenAIChat("openai", base_url=f"{far_end.url}/v1", key="k", dialect=OPENAI)
        for name in CALLS:
            this = call_of(name, MODELS)
            await theirs.chat.completions.create(**chat_arguments(this.request, seed_of(this)))
            await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
            expected, sent = far_end.bodies[-2:]
            assert sent == expected, name
            assert far_end.paths[-1] == far_end.paths[-2]
            assert far_end.headers[-1]["authorization"] == far_end.headers[-2]["authorization"]
        await ours.close()


async def test_response_bodies_are_those_of_the_client() -> None:
    # Stop words are the one thing left out: this API has none.
    async with FarEnd(response([message("Hi")])).running() as far_end, client(far_end) as theirs:
        ours = OpenAIResponses("openai-responses", base_url=f"{far_end.url}/v1", key="k")
        for name in CALLS:
            this = call_of(name, MODELS)
            await theirs.responses.create(**responses_arguments(this.request))
            await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
            expected, sent = far_end.bodies[-2:]
            assert sent == expected, name
            assert far_end.paths[-1] == far_end.paths[-2]
        await ours.close()


def chat(content: str | None, *, finish: str = "stop", usage: Body | None = None, **said: Any) -> Body:
    counted = {"prompt_tokens": 21, "completion_tokens": 9, "total_tokens": 30, **(usage or {})}
    return {
        "id": "chatcmpl-B9MB",
        "object": "chat.completion",
        "created": 1741569952,
        "model": "gpt-4.1-mini-2025-04-14",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": content,
                    "refusal": None,
                    "annotations": [],
                    **said,
                },
                "logprobs": None,
                "finish_reason": finish,
            }
        ],
        "usage": counted,
        "service_tier": "default",
        "system_fingerprint": "fp_38343a2f8f",
    }


WISH = {
    "id": "call_a",
    "type": "function",
    "function": {"name": "look", "arguments": '{"at": "the sea"}'},
}
DETAILED = {
    "prompt_tokens_details": {"cached_tokens": 16, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 5, "accepted_prediction_tokens": 0},
}
CHAT_REPLIES: dict[str, Body] = {
    "text": chat("Hi ☃"),
    "cached and reasoned": chat("Hi", usage=DETAILED),
    "cut": chat("Hi, I", finish="length"),
    "refused in words": chat(None, refusal="I will not."),
    "filtered": chat("", finish="content_filter"),
    "a tool": chat(None, finish="tool_calls", tool_calls=[WISH]),
    "two tools and a text": chat("I look.", finish="tool_calls", tool_calls=[WISH, {**WISH, "id": "call_b"}]),
}
FINISH = {"stop": "stop", "length": "length", "content_filter": "refusal", "tool_calls": "tool"}


@pytest.mark.parametrize("name", CHAT_REPLIES)
async def test_chat_replies_are_read_as_by_the_client(name: str) -> None:
    body, request = CHAT_REPLIES[name], call_of("plain", MODELS).request
    async with FarEnd(body).running() as far_end, client(far_end) as theirs:
        read = await theirs.chat.completions.create(model="m", messages=[{"role": "user", "content": "x"}])
    ours, raw = OpenAIChat("openai", base_url="http://x"), RawReply(body=msgspec.json.encode(body))
    parsed, usage, choice = ours.parse(raw, request), ours.meter(raw), read.choices[0]
    assert parsed.text == (choice.message.refusal or choice.message.content or "")
    assert parsed.finish == ("refusal" if choice.message.refusal else FINISH[choice.finish_reason])
    assert parsed.model == read.model
    assert parsed.seed == "honoured"
    assert parsed.extras == {}
    wishes: list[Any] = list(choice.message.tool_calls or [])
    assert [(one.id, one.name, one.arguments) for one in parsed.tool_calls] == [
        (wish.id, wish.function.name, msgspec.json.decode(wish.function.arguments)) for wish in wishes
    ]
    assert usage is not None
    assert read.usage is not None
    given = read.usage.prompt_tokens_details, read.usage.completion_tokens_details
    assert usage.tokens_in == read.usage.prompt_tokens
    assert usage.tokens_out == read.usage.completion_tokens
    assert usage.tokens_cached == ((given[0] and given[0].cached_tokens) or 0)
    assert usage.tokens_reasoning == ((given[1] and given[1].reasoning_tokens) or 0)


def message(text: str, **part: Any) -> Body:
    content = [{"type": "output_text", "text": text, "annotations": [], **part}]
    return {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": content}


def response(output: list[Body], *, status: str = "completed", reason: str | None = None) -> Body:
    return {
        "id": "resp_67cc",
        "object": "response",
        "created_at": 1741476542,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": None,
        "max_output_tokens": 100,
        "model": "gpt-4.1-2025-04-14",
        "output": output,
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": 36,
            "input_tokens_details": {"cached_tokens": 12, "cache_write_tokens": 3},
            "output_tokens": 87,
            "output_tokens_details": {"reasoning_tokens": 64},
            "total_tokens": 123,
        },
        "user": None,
        "metadata": {},
    }


CALLED: Body = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_a",
    "name": "look",
    "arguments": '{"at":"the sea"}',
    "status": "completed",
}
THOUGHT: Body = {"id": "rs_1", "type": "reasoning", "summary": []}
NO: Body = {**message(""), "content": [{"type": "refusal", "refusal": "I will not."}]}
RESPONSES: dict[str, tuple[Body, str]] = {
    "text": (response([message("Hi ☃")]), "stop"),
    "after reasoning": (response([THOUGHT, message("Hi")]), "stop"),
    "in two messages": (response([message("One. "), message("Two.")]), "stop"),
    "cut": (response([message("Hi, I")], status="incomplete", reason="max_output_tokens"), "length"),
    "filtered": (response([], status="incomplete", reason="content_filter"), "refusal"),
    "refused in words": (response([NO]), "refusal"),
    "a tool": (response([THOUGHT, CALLED]), "tool"),
    "two tools and a text": (response([message("I look."), CALLED, {**CALLED, "call_id": "call_b"}]), "tool"),
}


@pytest.mark.parametrize("name", RESPONSES)
async def test_responses_are_read_as_by_the_client(name: str) -> None:
    (body, finish), request = RESPONSES[name], call_of("plain", MODELS).request
    async with FarEnd(body).running() as far_end, client(far_end) as theirs:
        read = await theirs.responses.create(model="m", input="x")
    ours, raw = OpenAIResponses("openai", base_url="http://x"), RawReply(body=msgspec.json.encode(body))
    parsed, usage = ours.parse(raw, request), ours.meter(raw)
    assert parsed.text == (read.output_text or ("I will not." if name == "refused in words" else ""))
    assert parsed.finish == finish
    assert parsed.model == read.model
    assert parsed.extras == {}
    wishes = [item for item in read.output if item.type == "function_call"]
    assert [(one.id, one.name, one.arguments) for one in parsed.tool_calls] == [
        (wish.call_id, wish.name, msgspec.json.decode(wish.arguments)) for wish in wishes
    ]
    assert usage is not None
    assert read.usage is not None
    assert usage.tokens_in == read.usage.input_tokens
    assert usage.tokens_out == read.usage.output_tokens
    assert usage.tokens_cached == read.usage.input_tokens_details.cached_tokens
    assert usage.tokens_cache_write == 3
    assert usage.tokens_reasoning == read.usage.output_tokens_details.reasoning_tokens


def test_structured_replies_become_data_in_both() -> None:
    text, request = '{"label": "yes", "reason": "r"}', call_of("a closed schema", MODELS).request
    raw = RawReply(body=msgspec.json.encode(chat(text)))
    assert OpenAIChat("o", base_url="http://x").parse(raw, request).data == {"label": "yes", "reason": "r"}
    raw = RawReply(body=msgspec.json.encode(response([message(text)])))
    assert OpenAIResponses("o", base_url="http://x").parse(raw, request).data == {
        "label": "yes",
        "reason": "r",
    }
    assert request.schema == CLOSED


@pytest.mark.parametrize("fault", ["500", "drop"])
@pytest.mark.parametrize("kind", [OpenAIChat, OpenAIResponses])
async def test_one_call_is_one_request_whatever_happens(kind: Any, fault: Any) -> None:
    async with FarEnd({}, fault=fault).running() as far_end:
        ours, this = kind("openai", base_url=f"{far_end.url}/v1", key="k"), call_of("plain", MODELS)
        with pytest.raises(Unavailable):
            await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
        await ours.close()
    assert len(far_end.bodies) == 1
