"""What an account allows for one model: shared by all studies of a process that ask there.

A provider counts what comes from an account and not from which study it comes. So studies that run side by side, each
in its own thread and event loop, draw from one allowance, and what one of them is told holds for the others.

A1. Looking whether a call may leave and letting it leave is one step, whichever thread asks.
A2. Of limits that several studies state, the lowest holds while any of them runs.
A3. Whoever makes room, or learns that there is some, wakes those who wait in other studies.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Self

from trialrun.core.errors import CallError, Throttled, Unavailable
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

    def at_most(self, per_minute: float) -> None:
        """A further study states its limit."""
        self.per_minute = min(self.per_minute, per_minute)
        self.level = min(self.level, max(1.0, self.per_minute / 10))


class Allowance:
    """The state of one account's limits for one model. `now` is the caller's monotonic clock, the same for all."""

    def __init__(self, now: float) -> None:
        self.limit = self._bound = float(MOST_IN_FLIGHT)
        """Most calls in flight at this moment, and at any."""
        self.learned = LearnedRate(began_at=now)
        self.active = 0
        self._requests: Bucket | None = None
        self._tokens: Bucket | None = None
        self._shut_until = 0.0
        self._last_cut = float("-inf")
        self._wakers: list[Callable[[], None]] = []
        self._lock = Lock()

    def join(self, rate: RateLimit | None, now: float, wake: Callable[[], None]) -> None:
        """One more study asks here. It states these limits, and is woken when there may be room (A2, A3)."""
        with self._lock:
            self._wakers.append(wake)
            if rate is None:
                return
            if rate.in_flight:
                self._bound = min(self._bound, float(rate.in_flight))
                self.limit = min(self.limit, self._bound)
            self._requests = _lower(self._requests, rate.requests_per_minute, now)
            self._tokens = _lower(self._tokens, rate.tokens_per_minute, now)

    def leave(self, wake: Callable[[], None]) -> bool:
        """A study is over. Returns whether anybody is left."""
        with self._lock:
            self._wakers.remove(wake)
            return bool(self._wakers)

    def enter(self, tokens: int, now: float) -> float | None:
        """Let a call of so many tokens leave now, and return 0 (A1).

        If it may not: the seconds until it may, or None when it waits for another call to end.
        """
        with self._lock:
            if self._is_full:
                return None
            wait = max(0.0, self._shut_until - now, self.learned.wait_s(now))
            if self._requests:
                wait = max(wait, self._requests.wait_for(1, now))
            if self._tokens:
                wait = max(wait, self._tokens.wait_for(tokens, now))
            if wait > 0.0:
                return wait
            self.active += 1
            self.learned.take(now)
            if self._requests:
                self._requests.take(1)
            if self._tokens:
                self._tokens.take(tokens)
            return 0.0

    def holds_back(self, entered_at: float, now: float) -> bool:
        """Whether a limit was met since a call was let go that has not left yet (A1). Such a call counts as none."""
        learned = self.learned
        if learned.cut_at <= entered_at and max(self._shut_until, learned.shut_until) <= now:
            return False
        with self._lock:
            learned.stayed(entered_at)
            if self._requests:
                self._requests.take(-1)
        return True

    def ended(self, wake: Callable[[], None], *, estimated: int = 0, tokens: int | None = None) -> None:
        """A call of this study ended; its real tokens correct the estimate."""
        with self._lock:
            self.active -= 1
            if self._tokens and tokens is not None:
                self._tokens.take(tokens - estimated)
            others = [other for other in self._wakers if other is not wake] if len(self._wakers) > 1 else ()
        for other in others:
            other()

    def succeeded(self, headers: dict[str, str], sent_at: float, now: float) -> None:
        """A reply came: grow back towards the bound, and believe what the headers say is left.

        They were written when the call was let in, so a span in them counts from there; one that was made from a moment
        counts from now.
        """
        base = now if headers.get("x-ratelimit-reset-from") == "reply" else sent_at
        with self._lock:
            self.limit = min(self._bound, self.limit + 1 / max(1.0, self.limit))
            for kind in ("requests", "tokens"):
                if _count(headers, f"remaining-{kind}") != 0:
                    continue
                span = headers.get(f"x-ratelimit-reset-{kind}")
                until, limit = base + seconds(span or "1"), _count(headers, f"limit-{kind}")
                if kind == "requests" and limit and span and until > sent_at:
                    # All of them are back by then, and they come one after the other.
                    one_s = (until - sent_at) / limit
                    self.learned.told(now, sent_at=sent_at, per_second=1 / one_s)
                    until = sent_at + one_s
                self._shut_until = max(self._shut_until, until)

    def failed(self, error: CallError, entered_at: float, now: float) -> None:
        """A refusal or an overload: slower, or fewer at a time; nothing before the provider wants to see us again."""
        with self._lock:
            match error:
                case Throttled():
                    self.learned.refused(now, sent_at=entered_at, retry_after_s=error.retry_after_s)
                case Unavailable(status=503 | 529):
                    if error.retry_after_s:
                        self._shut_until = max(self._shut_until, now + error.retry_after_s)
                    # Calls that left together fail together: one cut for all of them, not one for each.
                    if entered_at > self._last_cut:
                        self._last_cut = now
                        self.limit = max(1.0, min(self.limit, float(self.active + 1)) / 2)
                case _:
                    pass

    @property
    def _is_full(self) -> bool:
        """Whether one more has to wait until a call ends."""
        return self.active >= max(1, int(self.limit))

    def why(self, waiting: int, now: float) -> str:
        """Why so many calls wait and for how long, for the progress line."""
        who = "1 call waits" if waiting == 1 else f"{waiting:,} calls wait"
        shut_s = max(self._shut_until, self.learned.shut_until) - now
        if shut_s > 0:
            return f"{who}: the provider asked us to wait, {shut_s:.0f} s more"
        if self._is_full:
            ending = "the one" if self.active == 1 else f"one of the {self.active}"
            return f"{who} for {ending} in flight to end"
        if self._requests and self._requests.level < 1:
            per_minute, limit = self._requests.per_minute, "the limit of {}"
        elif self._tokens and self._tokens.level < self._tokens.per_minute / 10:
            return f"{who} for the limit of {self._tokens.per_minute:,.0f} tokens a minute"
        elif self.learned.cuts and (rate := self.learned.per_second(now)):
            per_minute, limit = _MINUTE_S * rate, "the provider's limit, found to be about {}"
        else:
            return f"{who} for their turn"
        last_s = waiting * _MINUTE_S / per_minute
        return f"{who} for {limit.format(f'{per_minute:,.0f}')} a minute, the last of them {last_s:,.0f} s"


class Allowances:
    """Those in use, by account and model."""

    def __init__(self) -> None:
        self._known: dict[str, Allowance] = {}
        self._lock = Lock()

    @property
    def accounts(self) -> tuple[str, ...]:
        return tuple(self._known)

    def join(self, account: str, rate: RateLimit | None, now: float, wake: Callable[[], None]) -> Allowance:
        with self._lock:
            allowance = self._known.setdefault(account, Allowance(now))
            allowance.join(rate, now, wake)
            return allowance

    def leave(self, account: str, wake: Callable[[], None]) -> None:
        """What was learned is forgotten when nobody asks there any longer."""
        with self._lock:
            if not self._known[account].leave(wake):
                del self._known[account]


OF_THIS_PROCESS = Allowances()


def _lower(bucket: Bucket | None, per_minute: int | None, now: float) -> Bucket | None:
    if not per_minute:
        return bucket
    if bucket is None:
        return Bucket.of(per_minute, now)
    bucket.at_most(per_minute)
    return bucket


def _count(headers: dict[str, str], name: str) -> int | None:
    """A count in a header; None without one."""
    text = headers.get(f"x-ratelimit-{name}", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None


_MOST_DIGITS = 18
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
