"""Calls that wait for company. A load, one for each model, becomes a pack when it is full, or old, or all there is."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from trialrun.core.batches import BatchRoute, Form, PackStore, Row, Spool
from trialrun.core.calls import Call
from trialrun.core.errors import RequestRefused
from trialrun.core.identity import call_id, custom_id
from trialrun.core.study import Batching

_SAFETY = 0.95
"""Of the provider's size limit: it may count otherwise than we do."""
_BYTES_PER_TOKEN = 4


@dataclass(kw_only=True, slots=True)
class Load:
    """A pack that is being filled."""

    model: str
    endpoint: str
    route: BatchRoute
    spool: Spool
    began_at: float
    tokens: int = 0
    ceiling_usd: Decimal | None = Decimal(0)

    def add(self, line: bytes, row: Row, tokens: int) -> None:
        self.spool.add(line, row)
        self.tokens += tokens
        if row.ceiling_usd is None or self.ceiling_usd is None:
            self.ceiling_usd = None
        else:
            self.ceiling_usd += row.ceiling_usd


class Loads:
    """The loads of a run. A load that is done with leaves through `depart`."""

    def __init__(
        self, *, packs: PackStore, settings: Batching, tag: str, depart: Callable[[Load], None]
    ) -> None:
        self._packs = packs
        self._settings = settings
        self._tag = tag
        self._depart = depart
        self._open: dict[tuple[str, str], Load] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def waiting(self) -> int:
        """How many calls wait for company."""
        return sum(load.spool.requests for load in self._open.values())

    def add(
        self,
        call: Call,
        body: bytes,
        route: BatchRoute,
        *,
        attempt: int,
        ceiling_usd: Decimal | None,
        now: float,
    ) -> None:
        """Put a call into its load; one that does not fit any more begins the next."""
        model, endpoint = call.request.model, route.endpoint_of(call)
        id_ = custom_id(call_id(call.trial, call.address, attempt), self._tag)
        line = route.line(id_, body, call)
        most_bytes = int(route.limits.size_bytes * _SAFETY)
        if len(line) > most_bytes:
            raise RequestRefused(
                f"the request of {len(line)} bytes is larger than a whole batch may be",
                where=call.place,
                fix="run the study with `--lane live`",
            )
        tokens = len(body) // _BYTES_PER_TOKEN
        load = self._open.get((model, endpoint))
        if load is not None and (
            load.spool.size_bytes + len(line) > most_bytes or self._has_too_many(load, tokens)
        ):
            self._send(load)
            load = None
        if load is None:
            load = self._open[model, endpoint] = Load(
                model=model, endpoint=endpoint, route=route, spool=self._packs.spool(model), began_at=now
            )
        row = Row(
            id_,
            call.trial,
            call.condition,
            call.address,
            attempt,
            ceiling_usd,
            load.spool.form_number(Form.of(call.request)),
            call.turn,
        )
        load.add(line, row, tokens)
        if load.spool.requests >= min(
            route.limits.requests, self._settings.requests or route.limits.requests
        ):
            self._send(load)

    def flush(self) -> None:
        """Everything leaves now."""
        for load in list(self._open.values()):
            self._send(load)

    def flush_old(self, now: float) -> float | None:
        """What has waited long enough leaves. Returns the seconds until the next is old enough; None without any."""
        left: list[float] = []
        for load in list(self._open.values()):
            wait = load.began_at + self._settings.flush_s - now
            if wait <= 0:
                self._send(load)
            else:
                left.append(wait)
        return min(left, default=None)

    def discard(self) -> list[Load]:
        """Give up what is being filled; the caller discards the files."""
        loads = list(self._open.values())
        self._open.clear()
        return loads

    def _has_too_many(self, load: Load, tokens: int) -> bool:
        most = self._settings.queued_tokens
        return most is not None and load.tokens + tokens > most

    def _send(self, load: Load) -> None:
        del self._open[load.model, load.endpoint]
        self._depart(load)
