"""Where answers come from: the generator of the rehearsal lane, or a few texts made in advance."""

from typing import Protocol

import msgspec

from trialrun.core import chance
from trialrun.core.calls import Call, Message, Usage
from trialrun.core.study import Rehearsal
from trialrun.providers.reading import BYTES_PER_TOKEN, tokens_in_of, tokens_of
from trialrun.providers.rehearsal.profiles import profile_of
from trialrun.providers.rehearsal.provider import Body, RehearsalProvider
from trialrun.testing.emulator.asked import Answer, Asked

_MARGIN_TOKENS = 16
_CANNED = 64


class Source(Protocol):
    """Answers a request. `key` is the request's own branch of chance."""

    async def answer(self, asked: Asked, key: bytes) -> Answer: ...


class Rehearsed:
    """The rehearsal lane's generator: knows who speaks, and fills schemas."""

    def __init__(self, *, words: float = 1.0) -> None:
        self._provider = RehearsalProvider(Rehearsal(words=words))

    async def answer(self, asked: Asked, key: bytes) -> Answer:
        first, seconds = await self._one(asked, key)
        usage, more = first.usage, list[str]()
        for number in range(1, asked.count):
            body, _ = await self._one(asked, chance.derive(key, "choice", number))
            more.append(body.text)
            usage = msgspec.structs.replace(
                usage,
                tokens_out=usage.tokens_out + body.usage.tokens_out,
                tokens_reasoning=usage.tokens_reasoning + body.usage.tokens_reasoning,
            )
        finish = first.finish
        if asked.tool is not None and finish == "stop":
            finish = "tool"
        return Answer(text=first.text, usage=usage, finish=finish, more=tuple(more), seconds=seconds)

    async def _one(self, asked: Asked, key: bytes) -> tuple[Body, float]:
        request = asked.request
        thinking = _thinking(asked, request.max_tokens, key)
        if thinking:
            request = msgspec.structs.replace(request, max_tokens=request.max_tokens - thinking)
        call = Call(
            trial="emulated",
            condition="emulated",
            address="0",
            party="",
            purpose="",
            turn=0,
            request=request,
            key=key,
        )
        raw = await self._provider.send(call, b"", attempt=1, timeout_s=600.0)
        body = _BODY.decode(raw.body)
        if thinking:
            usage = msgspec.structs.replace(
                body.usage,
                tokens_out=body.usage.tokens_out + thinking,
                tokens_reasoning=body.usage.tokens_reasoning + thinking,
            )
            body = msgspec.structs.replace(body, usage=usage)
        return body, raw.latency_s


class Canned:
    """A few texts, each with a known length: the cheapest answers that still look like some. Schemas are rehearsed."""

    def __init__(self) -> None:
        self._rehearsed = Rehearsed()
        self._texts: list[str] = []

    async def answer(self, asked: Asked, key: bytes) -> Answer:
        if asked.schema is not None or asked.tool is not None or asked.count > 1:
            return await self._rehearsed.answer(asked, key)
        if not self._texts:
            self._texts = [await self._text(number) for number in range(_CANNED)]
        text = self._texts[key[0] % _CANNED]
        limit = asked.max_tokens
        is_cut = limit is not None and len(text) > limit * BYTES_PER_TOKEN
        if is_cut and limit is not None:
            text = text[: limit * BYTES_PER_TOKEN]
        usage = Usage(tokens_in=tokens_in_of(asked.request), tokens_out=tokens_of(text))
        return Answer(text=text, usage=usage, finish="length" if is_cut else "stop", seconds=1.0)

    async def _text(self, number: int) -> str:
        asked = Asked(provider="canned", model="canned", messages=(Message("user", "Hello."),))
        return (await self._rehearsed.answer(asked, chance.derive(b"canned", number))).text


def _thinking(asked: Asked, max_tokens: int, key: bytes) -> int:
    """Tokens that a model thinks because the request says so, where its family does not do it by itself."""
    if not asked.thinking or profile_of(asked.priced_as).reasoning_tokens:
        return 0
    drawn = int(asked.thinking * (0.2 + 0.6 * chance.fraction(chance.derive(key, "thinking"))))
    return max(0, min(drawn, max_tokens - _MARGIN_TOKENS))


_BODY = msgspec.json.Decoder(Body)
