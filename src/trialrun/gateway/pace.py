"""How fast calls may leave: requests and tokens per minute, calls in flight, and what the provider tells us.

One `Lane` for each model string: those of this study who wait, in order, for the model's `Allowance`. Limits that the
study states are kept as they are; the rate that nobody stated is learned from refusals (`learned`). Overload (503, 529)
halves the calls in flight, and each round of successes adds one.
"""

from asyncio import Future, Task, TaskGroup, get_running_loop
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from trialrun.core.errors import CallError, Drained
from trialrun.core.ports import Clock
from trialrun.core.study import RateLimit
from trialrun.gateway.allowance import OF_THIS_PROCESS, Allowance, Allowances


@dataclass(kw_only=True, slots=True)
class Lane:
    """Who waits for one model."""

    model: str
    account: str
    allowance: Allowance
    wake: Callable[[], None]
    active: int = 0
    waiting: "deque[tuple[int, Future[None]]]" = field(default_factory=deque["tuple[int, Future[None]]"])
    pump: "Task[None] | None" = None

    def enter(self, tokens: int, now: float) -> float | None:
        """As the allowance has it; a call that leaves is one of ours in flight."""
        wait = self.allowance.enter(tokens, now)
        if wait == 0.0:
            self.active += 1
        return wait

    def leave(self, *, estimated: int = 0, tokens: int | None = None) -> None:
        self.active -= 1
        self.allowance.ended(self.wake, estimated=estimated, tokens=tokens)

    def why(self, now: float) -> str:
        """Why somebody waits here, for the progress line; empty when nobody does."""
        return f"{self.model}: {self.allowance.why(len(self.waiting), now)}" if self.waiting else ""


class Pacer:
    """Lanes by model. Used inside one event loop; `group` owns the timers that let waiting calls go.

    `account_of` says whose limits hold for a model. All studies of a process share what the same account allows; an
    empty name, or nobody to ask, keeps the limits of a model to this study.
    """

    def __init__(
        self,
        rates: tuple[RateLimit, ...],
        clock: Clock,
        group: TaskGroup,
        *,
        account_of: Callable[[str], str] | None = None,
    ) -> None:
        self._rates = rates
        self._clock = clock
        self._group = group
        self._account_of = account_of
        self._lanes: dict[str, Lane] = {}
        self._is_draining = False

    async def enter(self, model: str, tokens: int) -> float:
        """Wait until a call of about so many tokens may leave, and count it as in flight. Returns when that was."""
        lane = self.lane(model)
        now = self._clock.monotonic()
        if not lane.waiting and lane.enter(tokens, now) == 0.0:
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
                lane.leave()
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
        lane.leave(estimated=estimated_tokens, tokens=tokens)
        self._serve(lane)

    def holds_back(self, model: str, entered_at: float) -> bool:
        """Whether a call that was let go then, and has not left yet, had better wait for another turn."""
        return self.lane(model).allowance.holds_back(entered_at, self._clock.monotonic())

    def succeeded(self, model: str, headers: dict[str, str], entered_at: float) -> None:
        """A reply came, to a call that left then."""
        self.lane(model).allowance.succeeded(headers, entered_at, self._clock.monotonic())

    def failed(self, model: str, error: CallError, entered_at: float) -> None:
        """An attempt that left then failed."""
        self.lane(model).allowance.failed(error, entered_at, self._clock.monotonic())

    def waits(self) -> list[str]:
        """Why calls wait, one line a lane."""
        now = self._clock.monotonic()
        return [line for lane in self._lanes.values() if (line := lane.why(now))]

    @property
    def in_flight(self) -> int:
        return sum(lane.active for lane in self._lanes.values())

    def lane(self, model: str) -> Lane:
        """The lane of this model, made with the first rate limit whose pattern fits."""
        lane = self._lanes.get(model)
        if lane is None:
            rate = next((rate for rate in self._rates if fnmatchcase(model, rate.model)), None)
            account = self._account_of(model) if self._account_of else ""
            wake, now = self._waker(model), self._clock.monotonic()
            allowances = OF_THIS_PROCESS if account else Allowances()
            allowance = allowances.join(account, rate, now, wake)
            lane = self._lanes[model] = Lane(model=model, account=account, allowance=allowance, wake=wake)
        return lane

    def close(self) -> None:
        """This study asks no more."""
        for lane in self._lanes.values():
            if lane.account:
                OF_THIS_PROCESS.leave(lane.account, lane.wake)

    def _waker(self, model: str) -> Callable[[], None]:
        """Called from any thread when there may be room for those who wait here."""
        loop = get_running_loop()

        def wake() -> None:
            lane = self._lanes.get(model)
            if lane is not None and lane.waiting:
                with suppress(RuntimeError):  # its loop has ended, and with it all who waited
                    loop.call_soon_threadsafe(self._serve, lane)

        return wake

    def _serve(self, lane: Lane) -> None:
        while lane.waiting:
            tokens, turn = lane.waiting[0]
            if turn.done():
                lane.waiting.popleft()
                continue
            now = self._clock.monotonic()
            wait = lane.enter(tokens, now)
            if wait is None:
                return
            if wait > 0:
                if lane.pump is None:
                    lane.pump = self._group.create_task(self._later(lane, wait))
                return
            lane.waiting.popleft()
            turn.set_result(None)

    async def _later(self, lane: Lane, wait: float) -> None:
        await self._clock.sleep(wait)
        lane.pump = None
        self._serve(lane)
