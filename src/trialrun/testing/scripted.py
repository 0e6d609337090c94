"""A provider that answers from a function or a list: the far end of every test.

It speaks no protocol and costs nothing; what a test wants to know about the calls is in `sent` and `answered`.
"""

import inspect
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from trialrun.core import identity
from trialrun.core.calls import Call, Finish, Parsed, RawReply, Request, SeedState, ToolCall, Usage
from trialrun.core.errors import CallTimedOut, ReplyUnreadable, Throttled
from trialrun.core.ports import Clock
from trialrun.providers.reading import data_of, tokens_in_of, tokens_of

Answer = str | Parsed | RawReply | Exception
"""What a script may answer: a text, a whole reply, raw bytes, or an error to raise."""
Script = str | Callable[[Call], Answer | Awaitable[Answer]] | Sequence[Answer]


class Sent(NamedTuple):
    """One attempt that reached the provider."""

    call: Call
    attempt: int

    @property
    def id(self) -> str:
        return identity.call_id(self.call.trial, self.call.address, self.attempt)


class _Body(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    finish: Finish
    model: str
    data: object = None
    usage: Usage | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    extras: dict[str, object] = {}
    seed: SeedState = ""
    dropped: tuple[str, ...] = ()


class Scripted:
    """Answers from a function or, in the order of sending, from a list; a bare text answers everything.

    An answer that is an exception is raised instead. `delay_s` passes on the clock before the answer comes; longer
    than the time-out, and nobody answers. More calls at a time than `in_flight_limit`, or within a minute than
    `per_minute_limit`, are throttled. `usage` counts the tokens of a call and its text; it may return None.
    """

    def __init__(
        self,
        answer: Script,
        *,
        clock: Clock | None = None,
        delay_s: float | Callable[[Call], float] = 0.0,
        in_flight_limit: int | None = None,
        per_minute_limit: int | None = None,
        usage: Callable[[Call, str], Usage | None] | None = None,
        name: str = "scripted",
        is_rehearsal: bool = False,
    ) -> None:
        self.name = name
        self.is_rehearsal = is_rehearsal
        self.sent: list[Sent] = []
        """Every attempt that came here, in order, whatever became of it."""
        self.answered: list[Sent] = []
        """The attempts that got a reply, and so would have been billed."""
        self.most_in_flight = 0
        self.is_closed = False
        if (delay_s or per_minute_limit is not None) and clock is None:
            raise ValueError("a delay or a limit per minute needs a clock")
        self._answer = answer
        self._next = 0
        self._clock = clock
        self._delay_s = delay_s
        self._in_flight = 0
        self._in_flight_limit = in_flight_limit
        self._per_minute_limit = per_minute_limit
        self._recent: deque[float] = deque()
        self._usage = usage or usage_of

    @property
    def calls(self) -> list[Call]:
        """The calls of all attempts, in order."""
        return [sent.call for sent in self.sent]

    def prepare(self, call: Call) -> bytes:
        return identity.canonical(call.request)

    async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
        sent = Sent(call, attempt)
        self.sent.append(sent)
        self._admit()
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            answer = self._answer_to(call)
            waited_s = await self._wait(call, timeout_s)
            if inspect.isawaitable(answer):
                answer = await answer
        finally:
            self._in_flight -= 1
        if isinstance(answer, Exception):
            raise answer
        self.answered.append(sent)
        if isinstance(answer, RawReply):
            return answer
        parsed = Parsed(text=answer) if isinstance(answer, str) else answer
        text = parsed.text
        reply = _Body(
            text=text,
            finish=parsed.finish,
            model=parsed.model or call.request.model,
            data=parsed.data,
            usage=self._usage(call, text),
            tool_calls=parsed.tool_calls,
            extras=parsed.extras,
            seed=parsed.seed,
            dropped=parsed.dropped,
        )
        return RawReply(body=msgspec.json.encode(reply), latency_s=waited_s, request_id=sent.id)

    def meter(self, raw: RawReply) -> Usage | None:
        try:
            return msgspec.json.decode(raw.body, type=_Body).usage
        except msgspec.DecodeError:
            return None

    def parse(self, raw: RawReply, request: Request) -> Parsed:
        try:
            body = msgspec.json.decode(raw.body, type=_Body)
        except msgspec.DecodeError as error:
            raise ReplyUnreadable(f"the scripted reply cannot be read: {error}") from error
        data = body.data if body.data is not None else data_of(body.text, body.finish, request)
        return Parsed(
            text=body.text,
            finish=body.finish,
            model=body.model,
            data=data,
            tool_calls=body.tool_calls,
            extras=body.extras,
            seed=body.seed,
            dropped=body.dropped,
        )

    async def close(self) -> None:
        self.is_closed = True

    def _answer_to(self, call: Call) -> Answer | Awaitable[Answer]:
        if isinstance(self._answer, str):
            return self._answer
        if callable(self._answer):
            return self._answer(call)
        if self._next == len(self._answer):
            raise AssertionError(f"the script has no answer left for {call.place}")
        self._next += 1
        return self._answer[self._next - 1]

    def _admit(self) -> None:
        """Throttle what is above the limits, as a provider does before it runs anything."""
        if self._in_flight_limit is not None and self._in_flight >= self._in_flight_limit:
            raise Throttled(f"more than {self._in_flight_limit} calls at a time")
        if self._per_minute_limit is None or self._clock is None:
            return
        now = self._clock.monotonic()
        while self._recent and self._recent[0] <= now - 60.0:
            self._recent.popleft()
        if len(self._recent) >= self._per_minute_limit:
            wait_s = self._recent[0] + 60.0 - now
            raise Throttled(f"more than {self._per_minute_limit} calls in a minute", retry_after_s=wait_s)
        self._recent.append(now)

    async def _wait(self, call: Call, timeout_s: float) -> float:
        delay_s = self._delay_s(call) if callable(self._delay_s) else self._delay_s
        if self._clock is None or delay_s <= 0:
            return 0.0
        await self._clock.sleep(min(delay_s, timeout_s))
        if delay_s > timeout_s:
            raise CallTimedOut(f"no reply in {timeout_s:g} s")
        return delay_s


def usage_of(call: Call, text: str) -> Usage:
    """About four bytes per token, in and out; never above the call's ceiling."""
    return Usage(
        tokens_in=tokens_in_of(call.request), tokens_out=min(tokens_of(text), call.request.max_tokens)
    )
