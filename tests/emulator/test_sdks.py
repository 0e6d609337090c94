"""The official SDKs, with their retries off, take the emulator for the real thing."""

import json
import warnings
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import BaseModel

from tests.emulator.support import ask
from trialrun.testing.emulator import Emulator

with warnings.catch_warnings():
    # Its own source has escapes that Python warns of when it compiles them.
    warnings.simplefilter("ignore")
    from google import genai
    from google.genai import errors, types

# Google's SDK derives from a class of aiohttp that asks not to be derived from.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"label": {"type": "string", "enum": ["yes", "no"]}, "reason": {"type": "string"}},
    "required": ["label", "reason"],
    "additionalProperties": False,
}


class Verdict(BaseModel):
    label: str
    reason: str


def openai_at(server: Emulator, **more: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=server.base_url("openai"), api_key="sk-one", max_retries=0, **more)


def anthropic_at(server: Emulator, **more: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=server.base_url("anthropic"), api_key="sk-one", max_retries=0, **more
    )


def gemini_at(server: Emulator, *, timeout_ms: int | None = None) -> genai.Client:
    options = types.HttpOptions(base_url=server.base_url("gemini"), timeout=timeout_ms)
    return genai.Client(api_key="sk-one", http_options=options)


# --- replies ---------------------------------------------------------------------------------------------------------


async def test_openai_chat_is_answered_with_everything_that_a_bill_needs():
    async with Emulator() as server, openai_at(server) as client:
        reply = await client.chat.completions.create(
            model="gpt-5-mini", messages=[{"role": "user", "content": "Hello."}], max_completion_tokens=900
        )
        usage = reply.usage
        assert usage
        assert usage.completion_tokens_details
        assert reply.choices[0].message.content
        assert reply.choices[0].finish_reason == "stop"
        assert reply.id.startswith("chatcmpl-")
        assert (reply.system_fingerprint or "").startswith("fp_")
        assert 0 < (usage.completion_tokens_details.reasoning_tokens or 0) < usage.completion_tokens <= 900
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        assert reply._request_id == f"req_{server.book.entries[0].request_id}"


async def test_openai_chat_reads_structured_replies_and_forced_tools():
    async with Emulator() as server, openai_at(server) as client:
        parsed = await client.chat.completions.parse(
            model="gpt-4.1-mini", messages=[{"role": "user", "content": "Is it?"}], response_format=Verdict
        )
        assert isinstance(parsed.choices[0].message.parsed, Verdict)
        reply = await client.chat.completions.create(
            model="gpt-4.1-mini",
            messages=[{"role": "user", "content": "Is it?"}],
            tools=[{"type": "function", "function": {"name": "judge", "parameters": SCHEMA}}],
            tool_choice={"type": "function", "function": {"name": "judge"}},
        )
        calls = reply.choices[0].message.tool_calls
        assert calls
        assert reply.choices[0].finish_reason == "tool_calls"
        assert calls[0].type == "function"
        assert json.loads(calls[0].function.arguments)["label"] in ("yes", "no")


async def test_openai_responses_are_read_with_reasoning_schema_and_tools():
    async with Emulator() as server, openai_at(server) as client:
        reply = await client.responses.create(
            model="gpt-5-mini", instructions="You are a client.", input="Hello.", max_output_tokens=900
        )
        assert reply.output_text
        assert reply.status == "completed"
        assert reply.usage
        assert reply.usage.output_tokens_details.reasoning_tokens > 0
        parsed = await client.responses.parse(model="gpt-4.1-mini", input="Is it?", text_format=Verdict)
        assert isinstance(parsed.output_parsed, Verdict)
        reply = await client.responses.create(
            model="gpt-4.1-mini",
            input="Is it?",
            tools=[{"type": "function", "name": "judge", "parameters": SCHEMA, "strict": True}],
            tool_choice="required",
        )
        assert reply.output[0].type == "function_call"
        assert json.loads(reply.output[0].arguments)["label"] in ("yes", "no")


async def test_anthropic_messages_are_read_with_schema_tools_and_thinking():
    async with Emulator() as server, anthropic_at(server) as client:
        reply = await client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=400,
            system="You are a client.",
            messages=[{"role": "user", "content": "Hello."}],
        )
        assert reply.content[0].type == "text"
        assert reply.stop_reason == "end_turn"
        assert reply._request_id
        structured = await client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=400,
            messages=[{"role": "user", "content": "Is it?"}],
            output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        )
        assert structured.content[0].type == "text"
        assert json.loads(structured.content[0].text)["label"] in ("yes", "no")
        forced = await client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=400,
            messages=[{"role": "user", "content": "Is it?"}],
            tools=[{"name": "judge", "input_schema": SCHEMA}],
            tool_choice={"type": "tool", "name": "judge"},
        )
        assert forced.stop_reason == "tool_use"
        assert forced.content[0].type == "tool_use"
        assert forced.content[0].input["label"] in ("yes", "no")
        thinking = await client.messages.create(
            model="claude-haiku-4-5",
            max_tokens=4000,
            messages=[{"role": "user", "content": "Hello."}],
            thinking={"type": "enabled", "budget_tokens": 2000},
        )
        assert [block.type for block in thinking.content] == ["thinking", "text"]
        counted = await client.messages.count_tokens(
            model="claude-haiku-4-5", messages=[{"role": "user", "content": "Hello."}]
        )
        assert counted.input_tokens > 0


async def test_gemini_is_read_with_schema_and_tools():
    async with Emulator() as server:
        client = gemini_at(server)
        reply = await client.aio.models.generate_content(
            model="gemini-2.5-flash",
            contents="Hello.",
            config=types.GenerateContentConfig(system_instruction="You are a client.", max_output_tokens=900),
        )
        usage = reply.usage_metadata
        assert reply.text
        assert usage
        assert (usage.thoughts_token_count or 0) > 0
        structured = await client.aio.models.generate_content(
            model="gemini-2.0-flash",
            contents="Is it?",
            config=types.GenerateContentConfig(
                response_mime_type="application/json", response_schema=Verdict
            ),
        )
        assert isinstance(structured.parsed, Verdict)
        judge = types.FunctionDeclaration(name="judge", parameters_json_schema=SCHEMA)
        forced = await client.aio.models.generate_content(
            model="gemini-2.0-flash",
            contents="Is it?",
            config=types.GenerateContentConfig(
                tools=[types.Tool(function_declarations=[judge])],
                tool_config=types.ToolConfig(
                    function_calling_config=types.FunctionCallingConfig(
                        mode=types.FunctionCallingConfigMode.ANY
                    )
                ),
                automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
            ),
        )
        calls = forced.function_calls
        assert calls
        assert (calls[0].args or {})["label"] in ("yes", "no")
        await client.aio.aclose()


async def test_vertex_takes_a_bearer_token_and_a_project():
    from google.oauth2.credentials import Credentials

    async with Emulator() as server:
        client = genai.Client(
            vertexai=True,
            project="lab",
            location="europe-west4",
            credentials=Credentials(token="emulated"),
            http_options=types.HttpOptions(base_url=server.base_url("vertex")),
        )
        reply = await client.aio.models.generate_content(model="gemini-2.5-flash", contents="Hello.")
        assert reply.text
        assert server.book.entries[0].provider == "vertex"
        await client.aio.aclose()


async def test_bodies_are_what_the_sdks_types_say():
    async with Emulator({"cache": True}) as server:
        chat = await ask(server, "openai")
        responses = await ask(
            server, "openai", {"model": "gpt-5-mini", "input": "Hello."}, path="/v1/responses"
        )
        messages = await ask(server, "anthropic")
        assert chat
        assert responses
        assert messages
        ChatCompletion.model_validate_json(chat.body)
        Response.model_validate_json(responses.body)
        Message.model_validate_json(messages.body)


async def test_models_are_listed():
    async with Emulator({"models": ["gpt-4.1-mini", "claude-*"]}) as server:
        async with openai_at(server) as client:
            assert [model.id async for model in client.models.list()] == ["gpt-4.1-mini"]
        async with anthropic_at(server) as client:
            assert [model.id async for model in client.models.list()] == ["gpt-4.1-mini"]


# --- endings ---------------------------------------------------------------------------------------------------------


async def test_a_refusal_is_told_by_each_provider_in_its_own_way():
    async with Emulator({"faults": [{"fault": "refusal"}]}) as server:
        async with openai_at(server) as client:
            chat = await client.chat.completions.create(
                model="gpt-4.1-mini", messages=[{"role": "user", "content": "Hello."}]
            )
            assert chat.choices[0].message.refusal
            assert chat.choices[0].message.content is None
        async with anthropic_at(server) as client:
            message = await client.messages.create(
                model="claude-haiku-4-5", max_tokens=300, messages=[{"role": "user", "content": "Hello."}]
            )
            assert message.stop_reason == "refusal"
        gemini = gemini_at(server)
        reply = await gemini.aio.models.generate_content(model="gemini-2.0-flash", contents="Hello.")
        assert reply.candidates
        assert reply.candidates[0].finish_reason == types.FinishReason.SAFETY
        await gemini.aio.aclose()


async def test_a_short_limit_ends_a_reply():
    async with Emulator() as server:
        async with openai_at(server) as client:
            chat = await client.chat.completions.create(
                model="gpt-4.1-mini", messages=[{"role": "user", "content": "Hello."}], max_tokens=9
            )
            assert chat.choices[0].finish_reason == "length"
            assert chat.usage
            assert chat.usage.completion_tokens <= 9
        async with anthropic_at(server) as client:
            message = await client.messages.create(
                model="claude-haiku-4-5", max_tokens=9, messages=[{"role": "user", "content": "Hello."}]
            )
            assert message.stop_reason == "max_tokens"


# --- errors ----------------------------------------------------------------------------------------------------------

OPENAI_ERRORS: dict[str, type[Exception]] = {
    "throttled": openai.RateLimitError,
    "quota": openai.RateLimitError,
    "billing": openai.RateLimitError,
    "spend_limit": openai.BadRequestError,
    "broken": openai.InternalServerError,
    "bad_gateway": openai.InternalServerError,
    "unavailable": openai.InternalServerError,
    "gateway_timeout": openai.InternalServerError,
    "overloaded": openai.InternalServerError,
    "revoked": openai.AuthenticationError,
    "forbidden": openai.PermissionDeniedError,
    "unknown_model": openai.NotFoundError,
    "refused": openai.BadRequestError,
    "too_long": openai.BadRequestError,
    "dropped_before": openai.APIConnectionError,
    "dropped_after": openai.APIConnectionError,
    "truncated": openai.APIConnectionError,
    "silence": openai.APITimeoutError,
    "malformed": json.JSONDecodeError,
}
ANTHROPIC_ERRORS: dict[str, type[Exception]] = {
    "throttled": anthropic.RateLimitError,
    "quota": anthropic.BadRequestError,
    "spend_limit": anthropic.BadRequestError,
    "billing": anthropic.APIStatusError,
    "broken": anthropic.InternalServerError,
    "unavailable": anthropic.InternalServerError,
    "overloaded": anthropic.InternalServerError,
    "revoked": anthropic.AuthenticationError,
    "forbidden": anthropic.PermissionDeniedError,
    "unknown_model": anthropic.NotFoundError,
    "refused": anthropic.BadRequestError,
    "too_long": anthropic.BadRequestError,
    "dropped_before": anthropic.APIConnectionError,
    "dropped_after": anthropic.APIConnectionError,
    "truncated": anthropic.APIConnectionError,
    "silence": anthropic.APITimeoutError,
    "malformed": json.JSONDecodeError,
}
GEMINI_ERRORS: dict[str, tuple[type[Exception], int]] = {
    "throttled": (errors.ClientError, 429),
    "quota": (errors.ClientError, 429),
    "broken": (errors.ServerError, 500),
    "unavailable": (errors.ServerError, 503),
    "gateway_timeout": (errors.ServerError, 504),
    "revoked": (errors.ClientError, 400),
    "forbidden": (errors.ClientError, 403),
    "unknown_model": (errors.ClientError, 404),
    "refused": (errors.ClientError, 400),
}


def always(fault: str) -> dict[str, object]:
    return {"faults": [{"fault": fault, "wait_s": 2.5}]}


async def test_each_fault_is_the_error_that_openai_s_sdk_has_for_it():
    for fault, expected in OPENAI_ERRORS.items():
        async with Emulator(always(fault)) as server, openai_at(server, timeout=0.5) as client:
            with pytest.raises(expected) as caught:
                await client.chat.completions.create(
                    model="gpt-4.1-mini", messages=[{"role": "user", "content": "Hello."}]
                )
            assert server.book.arrived == 1, fault
            if fault == "throttled":
                assert isinstance(caught.value, openai.RateLimitError)
                assert caught.value.code == "rate_limit_exceeded"
                assert caught.value.response.headers["retry-after-ms"] == "2500"
            if fault == "quota":
                assert isinstance(caught.value, openai.RateLimitError)
                assert caught.value.code == "insufficient_quota"


async def test_each_fault_is_the_error_that_anthropic_s_sdk_has_for_it():
    for fault, expected in ANTHROPIC_ERRORS.items():
        async with Emulator(always(fault)) as server, anthropic_at(server, timeout=0.5) as client:
            with pytest.raises(expected) as caught:
                await client.messages.create(
                    model="claude-haiku-4-5", max_tokens=300, messages=[{"role": "user", "content": "Hello."}]
                )
            assert server.book.arrived == 1, fault
            if isinstance(caught.value, anthropic.APIStatusError):
                assert caught.value.request_id, fault
            if fault == "throttled":
                assert isinstance(caught.value, anthropic.RateLimitError)
                assert caught.value.response.headers["retry-after"] == "3"


async def test_each_fault_is_the_error_that_google_s_sdk_has_for_it():
    for fault, (expected, code) in GEMINI_ERRORS.items():
        async with Emulator(always(fault)) as server:
            client = gemini_at(server)
            with pytest.raises(expected) as caught:
                await client.aio.models.generate_content(model="gemini-2.0-flash", contents="Hello.")
            assert isinstance(caught.value, errors.APIError)
            assert caught.value.code == code, fault
            assert server.book.arrived == 1, fault
            if fault == "throttled":
                assert "2.5s" in str(caught.value.details)
            await client.aio.aclose()


async def test_what_a_real_model_refuses_is_refused():
    async with Emulator() as server, openai_at(server) as client:
        hello: Any = [{"role": "user", "content": "Hello."}]
        with pytest.raises(openai.BadRequestError, match="temperature"):
            await client.chat.completions.create(model="o3", messages=hello, temperature=0.2)
        with pytest.raises(openai.BadRequestError, match="max_completion_tokens"):
            await client.chat.completions.create(model="o3", messages=hello, max_tokens=100)
        loose: Any = {
            "type": "json_schema",
            "json_schema": {"name": "reply", "strict": True, "schema": {"type": "object", "properties": {}}},
        }
        with pytest.raises(openai.BadRequestError, match="additionalProperties"):
            await client.chat.completions.create(model="gpt-4.1", messages=hello, response_format=loose)
        assert {entry.is_billed for entry in server.book} == {False}
