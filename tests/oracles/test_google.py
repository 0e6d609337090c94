"""Google's official client beside our adapters for the Developer API and for Vertex AI.

What differs, and why: the client talks to Vertex AI under `v1beta1`, and we under `v1`; it spells some names with
underscores, which the API takes beside its own camels.
"""

import warnings
from typing import Any

import msgspec
import pytest

from tests.oracles.far_end import Body, FarEnd
from tests.oracles.table import CALLS, call_of, effort_of, system_of
from trialrun.core.calls import Message, RawReply, Request
from trialrun.core.errors import Unavailable
from trialrun.providers.bodies import seed_of
from trialrun.providers.gemini import Gemini
from trialrun.providers.vertex import StaticToken, Vertex

with warnings.catch_warnings():
    # The client has escapes that newer Pythons frown upon.
    warnings.simplefilter("ignore")
    from google import genai
    from google.genai import types
    from google.oauth2.credentials import Credentials

pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

MODELS = {"samples": "google/gemini-2.5-flash", "reasons": "google/gemini-3.6-flash"}


def developer(far_end: FarEnd) -> genai.Client:
    return genai.Client(api_key="k", http_options=types.HttpOptions(base_url=far_end.url))


def cloud(far_end: FarEnd) -> genai.Client:
    return genai.Client(
        vertexai=True,
        project="p-1",
        location="europe-west1",
        credentials=Credentials(token="k"),
        http_options=types.HttpOptions(base_url=far_end.url, api_version="v1"),
    )


def arguments(request: Request, seed: int) -> dict[str, Any]:
    """The call as a user of the client would write it."""
    contents: list[types.Content] = []
    names = {wish.id: wish.name for message in request.messages for wish in message.tool_calls}
    for message in request.messages:
        if message.role == "system":
            continue
        if message.answers:
            given = {"n": 3} if message.text.startswith("{") else {"output": message.text}
            result = types.FunctionResponse(id=message.answers, name=names[message.answers], response=given)
            part = types.Part(function_response=result)
            if contents[-1].role == "user":
                assert contents[-1].parts is not None
                contents[-1].parts.append(part)
            else:
                contents.append(types.Content(role="user", parts=[part]))
        else:
            parts = [types.Part(text=message.text)] if message.text or not message.tool_calls else []
            parts += [
                types.Part(function_call=types.FunctionCall(id=wish.id, name=wish.name, args=wish.arguments))
                for wish in message.tool_calls
            ]
            contents.append(
                types.Content(role="model" if message.role == "assistant" else "user", parts=parts)
            )
    declared = [
        types.FunctionDeclaration(
            name=tool.name,
            description=tool.description or None,
            parameters_json_schema=tool.parameters or None,
        )
        for tool in request.tools or ()
    ]
    samples, effort = "3.6" not in request.model, effort_of(request)
    config = types.GenerateContentConfig(
        system_instruction=system_of(request) or None,
        temperature=request.temperature if samples else None,
        top_p=request.top_p if samples else None,
        max_output_tokens=request.max_tokens,
        stop_sequences=list(request.stop) or None,
        seed=seed,
        response_mime_type="application/json" if request.schema else None,
        response_json_schema=request.schema,
        tools=[types.Tool(function_declarations=declared)] if declared else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        thinking_config=types.ThinkingConfig(thinking_level=types.ThinkingLevel(effort.upper()))
        if effort
        else None,
    )
    return {"model": request.model.partition("/")[2], "contents": contents, "config": config}


async def test_bodies_are_those_of_the_client_at_the_developer_api() -> None:
    async with FarEnd(reply([{"text": "Hi"}])).running() as far_end:
        theirs = developer(far_end)
        ours = Gemini("google", base_url=f"{far_end.url}/v1", key="k")
        await compare(far_end, theirs, ours, key_header="x-goog-api-key")


async def test_bodies_are_those_of_the_client_at_vertex() -> None:
    async with FarEnd(reply([{"text": "Hi"}])).running() as far_end:
        theirs = cloud(far_end)
        ours = Vertex(
            "vertex",
            project="p-1",
            location="europe-west1",
            base_url=f"{far_end.url}/v1",
            tokens=StaticToken("k"),
        )
        await compare(far_end, theirs, ours, key_header="authorization")


def in_camels(body: Body) -> Body:
    spelled = msgspec.json.encode(body)
    for name in (b"thinking_level", b"parameters_json_schema", b"thought_signature"):
        first, *others = name.split(b"_")
        spelled = spelled.replace(b'"%s"' % name, b'"%s"' % (first + b"".join(map(bytes.title, others))))
    return msgspec.json.decode(spelled)


async def compare(far_end: FarEnd, theirs: genai.Client, ours: Gemini, *, key_header: str) -> None:
    try:
        for name in CALLS:
            this = call_of(name, MODELS)
            await theirs.aio.models.generate_content(**arguments(this.request, seed_of(this)))
            await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
            expected, sent = far_end.bodies[-2:]
            assert sent == in_camels(expected), name
            assert far_end.paths[-1] == far_end.paths[-2]
            assert far_end.headers[-1][key_header] == far_end.headers[-2][key_header]
    finally:
        await theirs.aio.aclose()
        await ours.close()


def reply(parts: list[Body] | None, *, finish: str = "STOP", usage: Body | None = None, **more: Any) -> Body:
    candidate: Body = {"finishReason": finish, "index": 0, "safetyRatings": []}
    if parts is not None:
        candidate["content"] = {"role": "model", "parts": parts}
    counted = {"promptTokenCount": 8, "candidatesTokenCount": 5, "totalTokenCount": 13, **(usage or {})}
    return {
        "candidates": [candidate],
        "usageMetadata": counted,
        "modelVersion": "gemini-2.5-flash",
        "responseId": "r-1",
        **more,
    }


CALLED: Body = {
    "functionCall": {"name": "look", "args": {"at": "the sea"}, "id": "fc-1"},
    "thoughtSignature": "c2ln",
}
THOUGHT: Body = {"text": "Hm.", "thought": True}
COUNTED: Body = {
    "promptTokenCount": 2000,
    "cachedContentTokenCount": 1500,
    "toolUsePromptTokenCount": 30,
    "candidatesTokenCount": 5,
    "thoughtsTokenCount": 70,
    "totalTokenCount": 2105,
}
BLOCKED: Body = {
    "promptFeedback": {"blockReason": "SAFETY"},
    "usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8},
    "modelVersion": "gemini-2.5-flash",
}
REPLIES: dict[str, tuple[Body, str]] = {
    "text": (reply([{"text": "Hi ☃"}]), "stop"),
    "two parts": (reply([{"text": "One. "}, {"text": "Two."}]), "stop"),
    "after thinking": (reply([THOUGHT, {"text": "Hi"}], usage=COUNTED), "stop"),
    "cut": (reply([{"text": "Hi, I"}], finish="MAX_TOKENS"), "length"),
    "cut before a word": (reply(None, finish="MAX_TOKENS"), "length"),
    "unsafe": (reply(None, finish="SAFETY"), "refusal"),
    "recited": (reply(None, finish="RECITATION"), "refusal"),
    "a blocked prompt": (BLOCKED, "refusal"),
    "a tool": (reply([CALLED]), "tool"),
    "two tools and a text": (reply([{"text": "I look."}, CALLED, CALLED]), "tool"),
    "a broken call": (reply(None, finish="MALFORMED_FUNCTION_CALL"), "other"),
}


@pytest.mark.parametrize("name", REPLIES)
async def test_replies_are_read_as_by_the_client(name: str) -> None:
    (body, finish), request = REPLIES[name], call_of("plain", MODELS).request
    async with FarEnd(body).running() as far_end:
        theirs = developer(far_end)
        read = await theirs.aio.models.generate_content(model="gemini-2.5-flash", contents="x")
        await theirs.aio.aclose()
    ours, raw = Gemini("google", base_url="http://x"), RawReply(body=msgspec.json.encode(body))
    parsed, usage = ours.parse(raw, request), ours.meter(raw)
    given = read.candidates[0].content.parts if read.candidates and read.candidates[0].content else None
    assert parsed.text == "".join(part.text for part in given or [] if part.text and not part.thought)
    assert parsed.finish == finish
    assert parsed.model == read.model_version
    assert parsed.seed == "sent"
    assert parsed.extras == {}
    calls = read.function_calls or []
    assert [(one.id, one.name, one.arguments) for one in parsed.tool_calls] == [
        (call.id, call.name, call.args) for call in calls
    ]
    counted = read.usage_metadata
    assert usage is not None
    assert counted is not None
    assert usage.tokens_in == (counted.prompt_token_count or 0) + (counted.tool_use_prompt_token_count or 0)
    assert usage.tokens_out == (counted.candidates_token_count or 0) + (counted.thoughts_token_count or 0)
    assert usage.tokens_cached == (counted.cached_content_token_count or 0)
    assert usage.tokens_reasoning == (counted.thoughts_token_count or 0)


def test_a_signature_goes_back_with_its_call() -> None:
    body, _ = REPLIES["two tools and a text"]
    adapter, this = Gemini("google", base_url="http://x"), call_of("one tool", MODELS)
    parsed = adapter.parse(RawReply(body=msgspec.json.encode(body)), this.request)
    said = Message("assistant", parsed.text, parsed.tool_calls)
    again = msgspec.structs.replace(
        this, request=msgspec.structs.replace(this.request, messages=(*this.request.messages, said))
    )
    parts = msgspec.json.decode(adapter.prepare(again))["contents"][-1]["parts"]
    assert parts == [{"text": "I look."}, CALLED, CALLED]


@pytest.mark.parametrize("fault", ["500", "drop"])
async def test_one_call_is_one_request_whatever_happens(fault: Any) -> None:
    async with FarEnd({}, fault=fault).running() as far_end:
        this = call_of("plain", MODELS)
        for ours in (
            Gemini("google", base_url=f"{far_end.url}/v1", key="k"),
            Vertex("vertex", project="p", base_url=f"{far_end.url}/v1", tokens=StaticToken("k")),
        ):
            far_end.bodies.clear()
            with pytest.raises(Unavailable):
                await ours.send(this, ours.prepare(this), attempt=1, timeout_s=10)
            await ours.close()
            assert len(far_end.bodies) == 1
