"""How fast calls may leave: requests and tokens per minute, calls in flight, and what the provider tells us.

One `Lane` for each model string. Limits that the study states are kept as they are; the rate that nobody stated is
learned from refusals (`learned`). Overload (503, 529) halves the calls in flight, and each round of successes adds one.
"""

import re
from asyncio import Future, Task, TaskGroup, get_running_loop
from collections import deque
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Self

from trialrun.core.errors import CallError, Drained, Throttled, Unavailable
from trialrun.core.ports import Clock
from trialrun.core.study import RateLimit
from trialrun.gateway.learned import LearnedRate

MOST_IN_FLIGHT = 10_000
_MINUTE_S = 60.0


@dataclass(kw_only=True, slots=True)
class Bucket:
    """So many units a minute, with at most a tenth of a minute saved up.

    A full minute saved up would let a burst through that a provider, who counts in shorter windows, throttles.
    """

    per_minute: float
    level: float
    at: float

    @classmethod
    def of(cls, per_minute: float, now: float) -> Self:
        return cls(per_minute=per_minute, level=max(1.0, per_minute / 10), at=now)

    def wait_for(self, amount: float, now: float) -> float:
        """Seconds until so much may leave; 0 if now."""
        most = max(1.0, self.per_minute / 10)
        self.level = min(most, self.level + (now - self.at) * self.per_minute / _MINUTE_S)
        self.at = now
        # More than the bucket ever holds may leave when it is full, and then the level goes below zero.
        missing = min(amount, most) - self.level
        return 0.0 if missing <= 1e-9 else missing * _MINUTE_S / self.per_minute

    def take(self, amount: float) -> None:
        # No debt is longer than the minute in which a provider counts, however much it says that a call had.
        self.level = max(self.level - amount, -self.per_minute)


@dataclass(kw_only=True, slots=True)
class Lane:
    """The state of one model's lane."""

    model: str
    bound: float
    limit: float
    learned: LearnedRate
    requests: Bucket | None = None
    tokens: Bucket | None = None
    active: int = 0
    shut_until: float = 0.0
    last_cut: float = float("-inf")
    waiting: "deque[tuple[int, Future[None]]]" = field(default_factory=deque["tuple[int, Future[None]]"])
    pump: "Task[None] | None" = None
    throttles: int = 0

    def wait_s(self, tokens: int, now: float) -> float | None:
        """Seconds until a call of so many tokens may leave; None when it waits for another call to end."""
        if self.active >= max(1, int(self.limit)):
            return None
        wait = max(0.0, self.shut_until - now, self.learned.wait_s(now))
        if self.requests:
            wait = max(wait, self.requests.wait_for(1, now))
        if self.tokens:
            wait = max(wait, self.tokens.wait_for(tokens, now))
        return wait

    def enter(self, tokens: int, now: float) -> None:
        self.active += 1
        self.learned.take(now)
        if self.requests:
            self.requests.take(1)
        if self.tokens:
            self.tokens.take(tokens)

    def why(self, now: float) -> str:
        """Why somebody waits here, for the progress line; empty when nobody does."""
        if not self.waiting:
            return ""
        shut_s = max(self.shut_until, self.learned.shut_until) - now
        if shut_s > 0:
            return (
                f"{self.model}: the provider asked us to wait {shut_s:.0f} s, {len(self.waiting)} calls wait"
            )
        if self.active >= max(1, int(self.limit)):
            return f"{self.model}: {self.active} calls in flight, {len(self.waiting)} wait"
        rate = self.learned.per_second(now)
        learned = f" (about {60 * rate:.0f} calls a minute, learned)" if self.learned.cuts and rate else ""
        return f"{self.model}: {len(self.waiting)} wait for the rate limit{learned}"


class Pacer:
    """Lanes by model. Used inside one event loop; `group` owns the timers that let waiting calls go."""

    def __init__(self, rates: tuple[RateLimit, ...], clock: Clock, group: TaskGroup) -> None:
        self._rates = rates
        self._clock = clock
        self._group = group
        self._lanes: dict[str, Lane] = {}
        self._is_draining = False

    async def enter(self, model: str, tokens: int) -> float:
        """Wait until a call of about so many tokens may leave, and count it as in flight. Returns when that was."""
        lane = self.lane(model)
        now = self._clock.monotonic()
        if not lane.waiting and lane.wait_s(tokens, now) == 0.0:
            lane.enter(tokens, now)
            return now
        if self._is_draining:
            raise Drained
        turn: Future[None] = get_running_loop().create_future()
        lane.waiting.append((tokens, turn))
        self._serve(lane)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # Let go in the moment in which its turn came: nobody behind it may wait for a call that never was.
                lane.active -= 1
                self._serve(lane)
            raise
        return self._clock.monotonic()

    def drain(self) -> None:
        """Nobody waits any longer: whoever does is unwound with `Drained`. At a low rate, queues last for minutes."""
        self._is_draining = True
        for lane in self._lanes.values():
            while lane.waiting:
                _, turn = lane.waiting.popleft()
                if not turn.done():
                    turn.set_exception(Drained())
            if lane.pump is not None:
                lane.pump.cancel()
                lane.pump = None

    def leave(self, model: str, estimated_tokens: int, tokens: int | None) -> None:
        """The call ended; its real tokens correct the estimate."""
        lane = self.lane(model)
        lane.active -= 1
        if lane.tokens and tokens is not None:
            lane.tokens.take(tokens - estimated_tokens)
        self._serve(lane)

    def succeeded(self, model: str, headers: dict[str, str]) -> None:
        """A reply came: grow back towards the bound, and believe what the headers say is left."""
        lane = self.lane(model)
        lane.limit = min(lane.bound, lane.limit + 1 / max(1.0, lane.limit))
        for kind in ("requests", "tokens"):
            left = headers.get(f"x-ratelimit-remaining-{kind}")
            if left is not None and left.isascii() and left.isdigit() and not left.strip("0"):
                reset_s = seconds(headers.get(f"x-ratelimit-reset-{kind}", "1"))
                lane.shut_until = max(lane.shut_until, self._clock.monotonic() + reset_s)

    def failed(self, model: str, error: CallError, entered_at: float) -> None:
        """A refusal or an overload: slower, or fewer at a time; nothing before the provider wants to see us again."""
        lane, now = self.lane(model), self._clock.monotonic()
        match error:
            case Throttled():
                lane.throttles += 1
                lane.learned.refused(now, sent_at=entered_at, retry_after_s=error.retry_after_s)
            case Unavailable(status=503 | 529):
                if error.retry_after_s:
                    lane.shut_until = max(lane.shut_until, now + error.retry_after_s)
                # Calls that left together fail together: one cut for all of them, not one for each.
                if entered_at > lane.last_cut:
                    lane.last_cut = now
                    lane.limit = max(1.0, min(lane.limit, float(lane.active + 1)) / 2)
            case _:
                pass

    def waits(self) -> list[str]:
        """Why calls wait, one line a lane."""
        now = self._clock.monotonic()
        return [line for lane in self._lanes.values() if (line := lane.why(now))]

    @property
    def in_flight(self) -> int:
        return sum(lane.active for lane in self._lanes.values())

    def lane(self, model: str) -> Lane:
        """The lane of this model, made from the first rate limit whose pattern fits."""
        lane = self._lanes.get(model)
        if lane is None:
            rate = next((rate for rate in self._rates if fnmatchcase(model, rate.model)), None)
            now = self._clock.monotonic()
            bound = float((rate and rate.in_flight) or MOST_IN_FLIGHT)
            lane = self._lanes[model] = Lane(
                model=model,
                bound=bound,
                limit=bound,
                learned=LearnedRate(began_at=now),
                requests=Bucket.of(rate.requests_per_minute, now)
                if rate and rate.requests_per_minute
                else None,
                tokens=Bucket.of(rate.tokens_per_minute, now) if rate and rate.tokens_per_minute else None,
            )
        return lane

    def _serve(self, lane: Lane) -> None:
        while lane.waiting:
            tokens, turn = lane.waiting[0]
            if turn.done():
                lane.waiting.popleft()
                continue
            now = self._clock.monotonic()
            wait = lane.wait_s(tokens, now)
            if wait is None:
                return
            if wait > 0:
                if lane.pump is None:
                    lane.pump = self._group.create_task(self._later(lane, wait))
                return
            lane.waiting.popleft()
            lane.enter(tokens, now)
            turn.set_result(None)

    async def _later(self, lane: Lane, wait: float) -> None:
        await self._clock.sleep(wait)
        lane.pump = None
        self._serve(lane)


_NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,9})?"
_SPAN = re.compile(rf"(?:{_NUMBER}(?:ms|[smh]))+|{_NUMBER}")
_PART = re.compile(rf"({_NUMBER})(ms|[smh])?")
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_SPAN_S = 24 * 3600.0


def seconds(text: str) -> float:
    """`1s`, `6m0s`, `250ms` or plain seconds, as rate-limit headers spell a span.

    1 when it cannot be read, or is longer than any such span: then it is a moment, or a joke.
    """
    if not _SPAN.fullmatch(text.strip()):
        return 1.0
    total = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    return total if total <= _LONGEST_SPAN_S else 1.0
