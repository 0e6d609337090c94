"""A trial's state as a row of the table `trial`, and back. Money is in whole pico-USD, so that SQL sums exactly."""

from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Any

import msgspec

from trialrun.core.errors import StoreCorrupt
from trialrun.core.state import TrialState

COLUMNS = (
    "id", "condition", "status", "lags", "forked_from", "replicate", "block", "planned", "actual", "generation",
    "turns", "calls", "attempts", "tokens_in", "tokens_out", "spent", "held", "unknown_costs", "doubts",
    "started_at", "ended_at", "spec", "reason", "boundary", "waiting_for", "end_reason", "levels", "outcome",
    "exact", "judging",
)  # fmt: skip

Row = tuple[Any, ...]

_PICO = 12
_PICOS_PER_USD = 10**_PICO
_ZERO = Decimal(0)


class _Exact(msgspec.Struct, omit_defaults=True):
    """What the sums of a row do not tell: each open hold, and a sum that has more digits than pico-USD."""

    holds: list[tuple[str, int, Decimal]] = []
    spent: Decimal | None = None
    lost: Decimal | None = None


_NO_EXACT = b""
_encode = msgspec.json.Encoder().encode
# Trials of one condition have the same: nobody changes levels in place.
_levels = lru_cache(maxsize=1024)(msgspec.json.Decoder(dict[str, str]).decode)
_values = msgspec.json.Decoder(dict[str, object])
_exact = msgspec.json.Decoder(_Exact)


def pico(usd: Decimal) -> int:
    """Whole pico-USD, to the nearest."""
    return int(usd.scaleb(_PICO).to_integral_value(ROUND_HALF_EVEN))


def pico_up(usd: Decimal) -> int:
    """Whole pico-USD, none less: for what is held."""
    if not usd:
        return 0
    return int(usd.scaleb(_PICO).to_integral_value(ROUND_CEILING))


def usd(picos: int) -> Decimal:
    """The amount as a plain decimal, without trailing zeros."""
    if not picos:
        return _ZERO
    whole, rest = divmod(picos, _PICOS_PER_USD)
    return Decimal(picos).scaleb(-_PICO).normalize() if rest else Decimal(whole)


def row_of(state: TrialState, *, lags: bool) -> Row:
    """The row of this state, in the order of COLUMNS."""
    spent = pico(state.spent_usd)
    is_whole = usd(spent) == state.spent_usd
    held = state.held_usd
    exact = _NO_EXACT
    if held or state.holds or not is_whole:
        exact = _encode(
            _Exact(
                holds=[(at, attempt, ceiling) for (at, attempt), ceiling in state.holds.items()],
                spent=None if is_whole else state.spent_usd,
                lost=state.lost_holds_usd or None,
            )
        )
    return (
        state.id, state.condition, state.status, int(lags), state.forked_from, state.replicate, state.block,
        state.planned, state.actual, state.generation, state.turns, state.calls, state.attempts, state.tokens_in,
        state.tokens_out, spent, pico_up(held), state.unknown_costs,
        state.doubts, state.started_at, state.ended_at, state.spec, state.reason, state.boundary,
        state.waiting_for, state.end_reason, _encode(state.levels), _encode(state.values), exact,
        state.judging,
    )  # fmt: skip


def state_of(row: Row) -> TrialState:
    """The state that was written as this row, or StoreCorrupt."""
    try:
        return _read(row)
    except (TypeError, ValueError) as error:
        raise StoreCorrupt(
            f"the row of trial {row[0]} in the table of trials is damaged: {error}",
            where="study.db, table trial",
            fix="`trialrun doctor --rebuild` computes the table anew from the facts",
        ) from error


def _read(row: Row) -> TrialState:
    (
        id_, condition, status, _lags, forked_from, replicate, block, planned, actual, generation, turns, calls,
        attempts, tokens_in, tokens_out, spent, _held, unknown_costs, doubts, started_at, ended_at, spec, reason,
        boundary, waiting_for, end_reason, levels, outcome, exact, judging,
    ) = row  # fmt: skip
    state = TrialState(
        id=id_, condition=condition, levels=_levels(levels), replicate=replicate, block=block,
        planned=planned, actual=actual, spec=spec, status=status, reason=reason, boundary=boundary,
        waiting_for=waiting_for, values=_values.decode(outcome), end_reason=end_reason, started_at=started_at,
        ended_at=ended_at, spent_usd=usd(spent), unknown_costs=unknown_costs, calls=calls, attempts=attempts,
        tokens_in=tokens_in, tokens_out=tokens_out, turns=turns, generation=generation, forked_from=forked_from,
        doubts=doubts, judging=judging,
    )  # fmt: skip
    if exact:
        more = _exact.decode(exact)
        state.holds = {(at, attempt): ceiling for at, attempt, ceiling in more.holds}
        state.spent_usd = state.spent_usd if more.spent is None else more.spent
        state.lost_holds_usd = more.lost or _ZERO
    return state


def copy_of(state: TrialState) -> TrialState:
    """A state that its reader may keep while the original goes on. Levels and values are only ever replaced."""
    return replace(state, holds=dict(state.holds))
