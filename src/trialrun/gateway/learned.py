"""The rate that a provider allows, learned from its refusals: for accounts whose limits nobody wrote down.

P1. Nothing begins with a burst: the first second ramps up, so that the first refusal comes back before much has left.
P2. A refusal says what was allowed: so many calls were accepted since the one before it, or in the last seconds. From
    there the rate creeps past that mark, and the longer no refusal comes, the faster it grows: a limit that was cut for
    a minute is found again in seconds (the cubic growth that networks use, on a rate instead of a window).
P3. One refusal is no limit: where a limit is passed, most of what leaves is refused, and some providers refuse a few
    calls in a hundred whatever the rate. A lone refusal holds up its own call and nobody else. A share that nobody
    refuses without a reason is a limit, however it came about.
P4. Calls that left before a limit was known are refused with it: that is one cut, not many.
P5. A pause that the provider asks for is kept. What it would have allowed meanwhile may leave after it, one second's
    worth at most.
P6. A refusal takes its time to come back, and says nothing of the calls that left after the refused one. Counted as
    accepted, they would make every limit look like a habit as soon as the provider is a continent away.
P7. A reply that says that no call is left, and how fast there are more, is believed: from there the rate creeps on.
"""

from collections import deque
from dataclasses import dataclass, field
from itertools import dropwhile, islice

RAMP_PER_S = 500.0
_RAMP_DOUBLES_S = 0.05
_RAMP_S = 1.0
_BACK = 0.05
_CURVE = 0.02
_PLATEAU_S = (_BACK / _CURVE) ** (1 / 3)
_PAUSE_S = 1.0
_LEAST_PER_S = 0.2
_RECENT_S, _RECENT_WHILE_FAST_S, _FAST = 3.0, 1.0, 3.0
_SHORT_S = 0.5
_CALLS_A_UNIT = 10.0
_MOST_SEEN = 20_000
_WINDOW = 60
_FIRST_REFUSALS, _FIRST_SHARE = 4, 0.5
_MOST_BY_HABIT = 0.2
_REFUSALS = 3
_OVER_BACKGROUND = 3.0
_SAME_LIMIT = 1.5
_FORGET = 0.005


@dataclass(kw_only=True, slots=True)
class _Span:
    """So many calls left since then, in so many seconds, and were accepted."""

    since: float
    seconds: float
    accepted: int


@dataclass(kw_only=True, slots=True)
class LearnedRate:
    """Calls per second that a provider seems to allow. Times are the caller's monotonic seconds."""

    began_at: float
    mark_per_s: float | None = None
    """The rate at the last refusal; None while nothing was ever refused."""
    cut_at: float = 0.0
    shut_until: float = 0.0
    cuts: int = 0
    _left_at: deque[float] = field(default_factory=lambda: deque[float](maxlen=_MOST_SEEN))
    """When the latest calls left since the last cut."""
    _spans: "tuple[_Span, ...]" = ()
    """Before the last cut: how many calls were accepted, as far as it is known by now."""
    _present: float | None = None
    """The rate that was refused then."""
    _refused: deque[float] = field(default_factory=lambda: deque[float](maxlen=_WINDOW))
    """When the latest refused calls had left."""
    _background: float = 0.0
    """The share of calls that is refused without a limit being passed."""
    _level: float = 1.0
    _level_at: float = 0.0

    def per_second(self, now: float) -> float | None:
        """The present rate; None is no bound."""
        if self.mark_per_s is None:
            age = now - self.began_at
            return None if age > _RAMP_S else RAMP_PER_S * 2 ** (age / _RAMP_DOUBLES_S)
        quiet_s = (now - max(self.cut_at, self.shut_until)) / self._unit_s
        growth = _CURVE * (quiet_s - _PLATEAU_S) ** 3
        return max(_LEAST_PER_S, self.mark_per_s * (1 + growth))

    @property
    def _unit_s(self) -> float:
        """The second of the growth; longer where so few calls leave that a second tells nothing."""
        return max(1.0, _CALLS_A_UNIT / self.mark_per_s) if self.mark_per_s else 1.0

    def _is_below_mark(self, at: float) -> bool:
        """Whether a call that left then left at a rate that was accepted before: a refusal of it is a habit (P3)."""
        return at - max(self.cut_at, self.shut_until) < _PLATEAU_S * self._unit_s

    def wait_s(self, now: float) -> float:
        """Seconds until one more call may leave; 0 if now."""
        if now < self.shut_until:
            return self.shut_until - now
        rate = self.per_second(now)
        if rate is None:
            return 0.0
        self._refill(now, rate)
        # Rounding must not leave a wait so short that the clock cannot move by it.
        return 0.0 if self._level >= 1.0 - 1e-6 else max(1e-4, (1.0 - self._level) / rate)

    def take(self, now: float) -> None:
        """A call leaves."""
        self._level -= 1.0
        self._left_at.append(now)
        if self._is_below_mark(now):
            self._background -= _FORGET * self._background

    def refused(self, now: float, *, sent_at: float, retry_after_s: float | None) -> bool:
        """A call was refused for its rate. Returns whether this told anything new."""
        pause_s = _PAUSE_S if retry_after_s is None else retry_after_s
        if self.cuts and sent_at <= self.cut_at:
            self.shut_until = max(self.shut_until, now + pause_s)
            self._not_accepted(sent_at)
            return False
        self._refused.append(sent_at)
        if self._is_below_mark(sent_at):
            self._background += _FORGET
        if not self._is_limit():
            return False
        together = len(self._refused)
        below = sum(map(self._is_below_mark, self._refused))
        self._background = max(0.0, self._background - _FORGET * below)
        self._refused.clear()
        self._present = self.per_second(now) if self.cuts else None
        self._spans = self._spans_before(now, pause_s)
        self.shut_until = max(self.shut_until, now + pause_s)
        self._left_at.clear()
        self.cut_at, self._level, self._level_at = now, 0.0, now
        self.cuts += 1
        for _ in range(together):
            self._not_accepted(sent_at)
        return True

    def stayed(self, sent_at: float) -> None:
        """A call that had been let go did not leave: a limit was met meanwhile. It was neither accepted nor refused."""
        if sent_at <= self.cut_at:
            self._not_accepted(sent_at)
        elif sent_at in self._left_at:
            self._left_at.remove(sent_at)
            self._level += 1.0

    def told(self, now: float, *, sent_at: float, per_second: float) -> bool:
        """A reply says that no call is left, and how fast there are more. Returns whether that is new (P7)."""
        present = self.per_second(now)
        if (self.cuts and sent_at <= self.cut_at) or (present is not None and present <= per_second):
            return False
        self.mark_per_s = max(_LEAST_PER_S, per_second)
        self._refused.clear()
        self._left_at.clear()
        # What is refused of the calls that are out already says nothing of this rate.
        self._spans = ()
        self.cut_at = self._level_at = now
        self._level = 0.0
        self.cuts += 1
        return True

    def _is_limit(self) -> bool:
        """Whether the refusals among the latest calls are more than the provider's habit (P3).

        Only of calls up to the last refused one is the fate known: what left after it is still on the way (P6).
        """
        last = max(self._refused)
        if self.cuts:
            known = islice(dropwhile(lambda at: at > last, reversed(self._left_at)), _WINDOW)
            begin = min(known, default=last)
            refused = sum(at >= begin for at in self._refused)
            habit = min(_OVER_BACKGROUND * self._background, _MOST_BY_HABIT)
            return refused >= max(_REFUSALS, habit * _WINDOW)
        first = self._refused[0]
        since = sum(first <= at <= last for at in self._left_at)
        if since > _WINDOW:
            # The oldest refusal was a lone one.
            self._refused.popleft()
            return bool(self._refused) and self._is_limit()
        if len(self._refused) >= _MOST_BY_HABIT * _WINDOW:
            return True
        return len(self._refused) >= _FIRST_REFUSALS and len(self._refused) / max(1, since) >= _FIRST_SHARE

    def _spans_before(self, now: float, pause_s: float) -> "tuple[_Span, ...]":
        """The times whose accepted calls tell what is allowed (P2)."""
        if not self.cuts:
            # They may have been a burst that the provider had saved up; the pause pays for it.
            seconds = now - self.began_at + max(pause_s, 1.0)
            return (_Span(since=self.began_at - 1.0, seconds=seconds, accepted=len(self._left_at)),)
        whole = self._left_at[0] if len(self._left_at) == _MOST_SEEN else self.cut_at
        grown = self._present / self.mark_per_s if self._present and self.mark_per_s else _FAST
        # While the rate grows fast, what was accepted seconds ago says little of what is allowed.
        recent_s = _RECENT_WHILE_FAST_S if grown > _FAST else _RECENT_S
        begins = [max(whole, now - recent_s * self._unit_s)]
        if grown < _SAME_LIMIT:
            # The provider was at the same limit at both ends: what it saved up in between was spent in between. The
            # latest seconds are inflated by that, but tell of a limit that has fallen.
            begins.append(whole)
        return tuple(
            _Span(
                since=since, seconds=max(0.05, now - since), accepted=sum(at > since for at in self._left_at)
            )
            for since in begins
        )

    def _not_accepted(self, sent_at: float) -> None:
        """One of the calls that were thought accepted before the last cut was not: what was allowed is less."""
        within = [span for span in self._spans if span.since < sent_at]
        if not within:
            return
        for span in within:
            span.accepted -= 1
        allowed = max(_LEAST_PER_S, min(span.accepted / span.seconds for span in self._spans))
        # Never above what was just refused: while the provider has saved up, more is accepted than it will keep up. Nor
        # below half of it a moment after a cut, when next to nothing can have been accepted.
        present = self._present
        least = present / 2 if present and self._spans[0].seconds < _SHORT_S else 0.0
        self.mark_per_s = allowed if present is None else max(least, min(allowed, present))

    def _refill(self, now: float, rate: float) -> None:
        most = max(1.0, rate if self.mark_per_s is not None else rate * 0.005)
        self._level = min(most, self._level + (now - self._level_at) * rate)
        self._level_at = now
