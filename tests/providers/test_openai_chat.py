"""Chat completions: what is sent, and how the replies of different servers are read."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.contracts.chat_server import ChatServer
from trialrun.core import chance
from trialrun.core.calls import Call, Message, RawReply, Request, Usage
from trialrun.core.errors import (
    AuthRefused,
    QuotaExhausted,
    ReplyUnreadable,
    RequestRefused,
    Throttled,
    Unavailable,
)
from trialrun.providers.http.client import HttpClient
from trialrun.providers.keys import Keys, Secret
from trialrun.providers.limits import retry_after_s
from trialrun.providers.openai_chat import OPENAI, Dialect, OpenAIChat, chat_body, is_strict

OPEN: dict[str, object] = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED: dict[str, object] = {**OPEN, "required": ["a"], "additionalProperties": False}


def call(*, number: int = 1, **changes: Any) -> Call:
    settings: dict[str, Any] = {
        "model": "openai/gpt-5-mini",
        "messages": (Message("system", "Be brief."), Message("user", "Hello")),
        "max_tokens": 100,
    }
    return Call(
        trial="t-r0",
        condition="t",
        address=str(number),
        party="p",
        purpose="",
        turn=1,
        request=Request(**{**settings, **changes}),
        key=chance.derive(b"openai tests", number),
    )


def body_of(this: Call, dialect: Dialect = OPENAI) -> dict[str, Any]:
    return msgspec.json.decode(chat_body(this, dialect))


def test_the_body_holds_what_was_set_and_nothing_else() -> None:
    assert body_of(call()) == {
        "model": "gpt-5-mini",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "max_completion_tokens": 100,
        "seed": body_of(call())["seed"],
    }
    full = body_of(
        call(model="openai/gpt-4.1", temperature=0.0, top_p=0.9, stop=("END",), params={"user": "u"})
    )
    assert (full["temperature"], full["top_p"], full["stop"], full["user"]) == (0.0, 0.9, ["END"], "u")


def test_dialects_spell_the_limit_the_seed_and_the_schema() -> None:
    plain = body_of(call(schema=OPEN), Dialect(seed="random_seed", schema="json_object"))
    assert plain["max_tokens"] == 100
    assert "max_completion_tokens" not in plain
    assert isinstance(plain["random_seed"], int)
    assert plain["response_format"] == {"type": "json_object"}
    assert "seed" not in body_of(call(), Dialect(seed=None))


def test_a_model_name_keeps_its_own_slashes() -> None:
    assert body_of(call(model="openrouter/meta-llama/llama-3.3-70b"))["model"] == "meta-llama/llama-3.3-70b"


def test_each_call_has_its_own_seed_and_keeps_it() -> None:
    seeds = [body_of(call(number=n))["seed"] for n in range(50)]
    assert len(set(seeds)) == 50
    assert all(0 <= seed < 2**31 for seed in seeds)
    assert body_of(call(number=7))["seed"] == seeds[7]


def test_a_schema_is_strict_only_where_a_strict_server_takes_it() -> None:
    assert body_of(call(schema=CLOSED))["response_format"]["json_schema"]["strict"] is True
    assert body_of(call(schema=OPEN))["response_format"]["json_schema"]["strict"] is False
    assert is_strict({"$defs": {"x": CLOSED}, **CLOSED, "properties": {"a": {"$ref": "#/$defs/x"}}})
    assert not is_strict({**CLOSED, "properties": {"a": {"type": "array", "items": OPEN}}})


@pytest.mark.parametrize("name", ["n", "stream", "max_tokens", "messages", "model"])
def test_params_cannot_change_what_a_call_costs(name: str) -> None:
    with pytest.raises(RequestRefused, match=name):
        chat_body(call(params={name: 3}), OPENAI)


def provider(base_url: str = "http://127.0.0.1:9/v1", **settings: Any) -> OpenAIChat:
    return OpenAIChat("openai", base_url=base_url, **settings)


def raw(**body: Any) -> RawReply:
    return RawReply(body=msgspec.json.encode(body))


def choice(
    content: object = "Hi", *, finish: str | None = "stop", **message: object
) -> list[dict[str, object]]:
    return [{"message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}]


def test_the_ways_in_which_a_reply_ends() -> None:
    request = call().request
    for finish, ours in (
        ("stop", "stop"),
        ("length", "length"),
        ("model_length", "length"),
        ("content_filter", "refusal"),
        ("tool_calls", "tool"),
        ("eos", "stop"),
        ("end_turn", "stop"),
        ("load", "other"),
        (None, "other"),
    ):
        assert provider().parse(raw(choices=choice(finish=finish)), request).finish == ours
    refused = provider().parse(raw(choices=choice(None, refusal="I will not.")), call(schema=OPEN).request)
    assert (refused.text, refused.finish, refused.data) == ("I will not.", "refusal", None)


def test_content_may_be_text_parts_or_nothing() -> None:
    parts = [{"type": "text", "text": "One. "}, {"type": "image_url"}, {"type": "text", "text": "Two."}]
    assert provider().parse(raw(choices=choice(parts)), call().request).text == "One. Two."
    empty = provider().parse(raw(choices=choice(None, finish="length")), call().request)
    assert (empty.text, empty.finish) == ("", "length")
    with pytest.raises(ReplyUnreadable, match="cut at max_tokens"):
        provider().parse(raw(choices=choice(None, finish="length")), call(schema=OPEN).request)


def test_tokens_are_read_as_the_server_bills_them() -> None:
    usual = {"prompt_tokens": 50, "completion_tokens": 30, "total_tokens": 80}
    metered = provider().meter(raw(usage={**usual, "completion_tokens_details": {"reasoning_tokens": 20}}))
    assert metered is not None
    assert (metered.tokens_in, metered.tokens_out, metered.tokens_reasoning) == (50, 30, 20)
    beside = provider().meter(raw(usage={**usual, "total_tokens": 100, "completion_tokens_details": None}))
    assert beside is not None
    assert beside.tokens_out == 50
    cached = provider().meter(raw(usage={**usual, "prompt_cache_hit_tokens": 40}))
    assert cached is not None
    assert cached.tokens_cached == 40
    assert provider().meter(raw(choices=choice())) is None
    assert provider().meter(raw(usage={"prompt_tokens": "many"})) is None
    # A usage that we cannot read does not spoil the text.
    assert (
        provider().parse(raw(choices=choice(), usage={"prompt_tokens": "many"}), call().request).text == "Hi"
    )


async def test_connections_are_kept_and_the_key_travels_in_the_header_alone() -> None:
    server = ChatServer()
    async with server.running():
        http = HttpClient(concurrency=2)
        one, other = (provider(server.base_url, key=key, http=http) for key in ("sk-one-key", "sk-other-key"))
        for number, asked in enumerate([one, other] * 5):
            await asked.send(call(number=number), asked.prepare(call(number=number)), attempt=1, timeout_s=10)
        assert {headers["authorization"] for headers in server.headers} == {
            "Bearer sk-one-key",
            "Bearer sk-other-key",
        }
        assert not any("sk-" in str(body) for body in server.bodies)
        reply = await one.send(call(), one.prepare(call()), attempt=1, timeout_s=10)
        assert reply.headers["x-ratelimit-remaining-requests"] == "99"
        assert reply.request_id == "req-1"
        # Providers share the pool, so none of them closes it.
        await one.close()
        await other.send(call(), other.prepare(call()), attempt=1, timeout_s=10)
        await http.close()


async def test_a_server_without_a_key_gets_no_authorization() -> None:
    server = ChatServer()
    async with server.running():
        asked = provider(server.base_url)
        await asked.send(call(), asked.prepare(call()), attempt=1, timeout_s=10)
        await asked.close()
    assert "authorization" not in server.headers[0]


async def test_a_key_that_is_quoted_back_is_hidden_and_the_fix_names_where_it_is_set() -> None:
    server = ChatServer("bad key")
    async with server.running():
        asked = provider(server.base_url, key="sk-very-secret", key_name="OPENAI_API_KEY")
        with pytest.raises(AuthRefused) as caught:
            await asked.send(call(), asked.prepare(call()), attempt=1, timeout_s=10)
        await asked.close()
    assert "<key>" in caught.value.what
    assert "sk-very-secret" not in caught.value.report()
    assert "OPENAI_API_KEY" in caught.value.fix


def test_an_empty_purse_is_told_from_a_fast_client() -> None:
    for status, body in (
        (402, b'{"error": {"message": "Insufficient Balance"}}'),
        (429, b'{"error": {"type": "insufficient_quota", "code": null, "message": "x"}}'),
        (403, b'{"error": {"code": "billing_not_active", "message": "x"}}'),
    ):
        with pytest.raises(QuotaExhausted):
            provider().checked(RawReply(body=body, status=status), call(), Keys())


@pytest.mark.parametrize(
    ("code", "kind", "billed"),
    [
        (429, Throttled, "no"),
        (502, Unavailable, "unknown"),
        (408, Unavailable, "unknown"),
        (503, Unavailable, "no"),
        (400, RequestRefused, "no"),
        (402, QuotaExhausted, None),
        (401, AuthRefused, None),
    ],
)
def test_a_failure_that_a_status_of_200_hides_is_a_failure(code: int, kind: Any, billed: str | None) -> None:
    hidden = raw(error={"message": "Provider returned error", "code": code, "metadata": {}}, user_id="u")
    with pytest.raises(kind, match="Provider returned error") as caught:
        provider().checked(hidden, call(), Keys())
    assert getattr(caught.value, "billed", None) == billed


@pytest.mark.parametrize(
    "more",
    [
        {"choices": choice(), "error": None},
        {"choices": choice(), "error": {"message": "x", "code": 502}},
        {"usage": {"prompt_tokens": 5}, "error": {"message": "x", "code": 502}},
        {"error": {"message": "x", "code": "server_error"}},
        {"error": "x"},
        {"choices": choice('He said: "error".')},
    ],
)
def test_what_has_choices_or_tokens_or_no_code_is_read_as_a_reply(more: dict[str, Any]) -> None:
    body = raw(**more)
    assert provider().checked(body, call(), Keys()).body == body.body


@pytest.mark.parametrize(
    ("bill", "usage", "usd"),
    [
        (None, {"cost": 0.5}, None),
        ("usd", {}, None),
        ("usd", {"cost": 0}, "0"),
        (
            "usd",
            {"cost": 6.7e-06, "is_byok": False, "cost_details": {"upstream_inference_cost": 6.7e-06}},
            "0.0000067",
        ),
        ("usd", {"cost": 0.01, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.2}}, "0.21"),
        ("usd", {"cost": 0.01, "is_byok": True, "cost_details": None}, None),
        ("usd", {"cost": "free"}, None),
        ("usd", {"cost": True}, None),
        ("ticks", {"cost_in_usd_ticks": 37_756_000}, "0.0037756"),
        ("ticks", {"cost": 1}, None),
    ],
)
def test_a_charge_is_read_where_the_server_s_dialect_has_one(
    bill: Any, usage: dict[str, Any], usd: str | None
) -> None:
    asked = provider(dialect=Dialect(bill=bill))
    metered = asked.meter(raw(choices=choice(), usage={"prompt_tokens": 5, "completion_tokens": 1, **usage}))
    assert metered is not None
    assert metered.billed_usd == (None if usd is None else Decimal(usd))


@pytest.mark.parametrize(
    "said",
    [
        '"cost": 1e400',
        '"cost": 1' + "0" * 400,
        '"cost": 1e-4000',
        '"cost": []',
        '"cost": 0.5, "is_byok": true, "cost_details": []',
        '"cost": 0.5, "is_byok": true, "cost_details": {"upstream_inference_cost": 1e999}',
        '"cost_details": "none"',
    ],
)
@pytest.mark.parametrize("bill", [None, "usd"])
def test_a_charge_that_makes_no_sense_costs_nobody_the_tokens_beside_it(bill: Any, said: str) -> None:
    body = raw(choices=choice(), usage={"prompt_tokens": 5, "completion_tokens": 1, "cost": "SAID"}).body
    metered = provider(dialect=Dialect(bill=bill)).meter(
        RawReply(body=body.replace(b'"cost":"SAID"', said.encode()))
    )
    assert metered == Usage(tokens_in=5, tokens_out=1)


def test_a_secret_prints_nothing_of_itself() -> None:
    secret = Secret("sk-12345")
    assert "12345" not in f"{secret} {secret!r}"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e99"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_all_its_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers) == seconds
