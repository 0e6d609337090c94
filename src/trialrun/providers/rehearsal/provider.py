"""The rehearsal lane: answers without a network, in the manner of the model that it stands for.

R1. A reply depends on the call's key, its request and the model's profile: not on time, order, process or machine.
R2. A failure depends on the call's key and the number of the attempt, so a rehearsed run fails the same way again.
R3. A reply never has more tokens than the request allows, nor a request more than `core.pricing.most_tokens_in`.
R4. Every raw reply says that it is rehearsed, and for which model it stands.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Literal

import msgspec

from trialrun.core import chance, identity
from trialrun.core.calls import Call, Finish, Parsed, RawReply, Request, Usage
from trialrun.core.errors import CallError, CallTimedOut, ReplyUnreadable, Throttled, Unavailable
from trialrun.core.ports import Clock
from trialrun.core.study import Rehearsal
from trialrun.providers.reading import BYTES_PER_TOKEN, data_of, tokens_in_of, tokens_of
from trialrun.providers.rehearsal.answers import answer_to
from trialrun.providers.rehearsal.dice import Dice, normal_at
from trialrun.providers.rehearsal.profiles import Failure, Profile, effort_of, profile_of
from trialrun.providers.rehearsal.speech import refusal

_PREFIX = "rehearsal/"
_MOST_REASONING = 0.6
"""Of the token limit: a limit that reasoning alone would use up is rehearsed as a cut reply, not on every call."""
_FAILS_AFTER_S = 0.3

Ending = Literal["", "refusal", "cut"]


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """A rehearsed reply as it is stored."""

    rehearsal: Literal[True] = True
    model: str
    text: str
    finish: Finish
    usage: Usage


class RehearsalProvider:
    """Plays any model.

    `spell` writes the body as the real provider's adapter does, so that it is the same in every lane. `length_quantile`
    makes all replies as short (0.1) or long (0.9) as one in ten is, to bracket what a study costs.
    """

    is_rehearsal = True

    def __init__(
        self,
        settings: Rehearsal | None = None,
        *,
        clock: Clock | None = None,
        spell: Callable[[Call], bytes] | None = None,
        length_quantile: float | None = None,
        name: str = "rehearsal",
    ) -> None:
        self.name = name
        self._settings = settings or Rehearsal()
        self._clock = clock
        self._spell = spell
        self._length = None if length_quantile is None else normal_at(length_quantile)

    def prepare(self, call: Call) -> bytes:
        return self._spell(call) if self._spell else identity.canonical(call.request)

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        profile = profile_of(call.request.model)
        ending: Ending = ""
        if self._settings.errors:
            if failure := self._failure(call, profile, attempt):
                raise await self._failed(failure, call, profile, attempt, timeout_s)
            ending = self._ending(call, profile)
        reply, seconds = self._reply(call, profile, ending)
        if self._settings.speed is not None:
            wait_s = seconds / self._settings.speed
            await self._sleep(min(wait_s, timeout_s))
            if wait_s > timeout_s:
                raise CallTimedOut(f"no reply in {timeout_s:g} s (rehearsed)")
        return RawReply(
            body=msgspec.json.encode(reply),
            latency_s=round(seconds, 3),
            request_id=f"rehearsal-{call.key[:8].hex()}",
        )

    def meter(self, raw: RawReply) -> Usage | None:
        try:
            return _DECODER.decode(raw.body).usage
        except msgspec.DecodeError:
            return None

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        try:
            body = _DECODER.decode(raw.body)
        except msgspec.DecodeError as error:
            raise ReplyUnreadable(f"the rehearsed reply cannot be read: {error}") from error
        data = data_of(body.text, body.finish, request)
        return Parsed(text=body.text, finish=body.finish, model=f"rehearsal:{body.model}", data=data)

    async def close(self) -> None:
        """Nothing is open."""

    def _reply(self, call: Call, profile: Profile, ending: Ending) -> tuple[Body, float]:
        """The reply, and the seconds that the real model would take for it."""
        request = call.request
        dice = Dice(call.key + request.fingerprint.encode())
        drawn, thinking, pace = dice.normal(), dice.normal(), dice.normal()
        if self._length is not None:
            drawn = thinking = self._length
        limit = request.max_tokens
        reasoning = 0
        if profile.reasoning_tokens:
            median = profile.reasoning_tokens * effort_of(request.params)
            reasoning = int(median * math.exp(profile.reasoning_spread * thinking))
            reasoning = limit if ending == "cut" else min(reasoning, int(_MOST_REASONING * limit))
        room_bytes = (limit - reasoning) * BYTES_PER_TOKEN
        words = profile.words * self._settings.words * math.exp(profile.words_spread * drawn)
        finish: Finish = "stop"
        if ending == "refusal":
            text, finish = refusal(dice), "refusal"
        else:
            text = answer_to(call, dice, usual_words=words, room_bytes=room_bytes)
            if ending == "cut":
                room_bytes = min(room_bytes, len(text) // 2)
        text = _stopped(text, request.stop)
        if len(text) > room_bytes or not text.isascii():
            text, is_cut = _cut(text, room_bytes)
            finish = "length" if is_cut else finish
        usage = Usage(
            tokens_in=tokens_in_of(request),
            tokens_out=min(limit, reasoning + tokens_of(text))
            if finish != "length" or not reasoning
            else limit,
            tokens_reasoning=reasoning,
        )
        body = Body(model=request.model.removeprefix(_PREFIX), text=text, finish=finish, usage=usage)
        return body, profile.seconds(usage.tokens_out, pace)

    def _failure(self, call: Call, profile: Profile, attempt: int) -> Failure | None:
        key = chance.derive(call.key, "rehearsed failure", attempt)
        if chance.fraction(key) >= self._settings.errors:
            return None
        drawn = Dice(key).fraction() * sum(profile.failures.values())
        for failure, weight in profile.failures.items():
            drawn -= weight
            if drawn < 0:
                return failure
        return "broken"

    def _ending(self, call: Call, profile: Profile) -> Ending:
        drawn = chance.fraction(chance.derive(call.key, "rehearsed ending")) / self._settings.errors
        if drawn < profile.refusals:
            return "refusal"
        return "cut" if drawn < profile.refusals + profile.cuts else ""

    async def _failed(
        self, failure: Failure, call: Call, profile: Profile, attempt: int, timeout_s: float
    ) -> CallError:
        """Wait as long as this failure takes, then say what it is."""
        if self._settings.speed is not None:
            after_s = timeout_s if failure == "silent" else _FAILS_AFTER_S / self._settings.speed
            await self._sleep(min(after_s, timeout_s))
        match failure:
            case "throttled":
                pace = self._settings.speed or 1.0
                wait_s = profile.wait_s / pace if profile.names_wait else None
                return Throttled("too many requests (rehearsed)", retry_after_s=wait_s)
            case "broken":
                return Unavailable("internal error (rehearsed)", status=500)
            case "overloaded":
                return Unavailable("overloaded (rehearsed)", status=profile.overloaded_status)
            case "unreachable":
                return Unavailable("no connection (rehearsed)")
            case "dropped":
                return Unavailable("the connection was lost before the reply (rehearsed)", billed="unknown")
            case "silent":
                return CallTimedOut(f"no reply in {timeout_s:g} s (rehearsed)")

    async def _sleep(self, seconds: float) -> None:
        await (self._clock.sleep(seconds) if self._clock else asyncio.sleep(seconds))


_DECODER = msgspec.json.Decoder(Body)


def _stopped(text: str, stop: tuple[str, ...]) -> str:
    """The text up to the first stop word, which is not part of it."""
    places = [place for word in stop if word and (place := text.find(word)) >= 0]
    return text[: min(places)] if places else text


def _cut(text: str, room_bytes: int) -> tuple[str, bool]:
    """The text within so many bytes, and whether anything is missing."""
    whole = text.encode("utf-8", "surrogatepass")
    if len(whole) <= room_bytes:
        return text, False
    return whole[:room_bytes].decode("utf-8", "ignore"), True
