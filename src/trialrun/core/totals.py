"""What a batch comes to as a whole: as its provider says, and as its lines were settled. The two should be equal."""

from decimal import Decimal
from typing import TypeVar

import msgspec

N = TypeVar("N", int, Decimal)


class Totals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sums over a batch. None is what nobody says."""

    replies: int | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: Decimal | None = None

    def __bool__(self) -> bool:
        """Whether there is anything in it."""
        return any(getattr(self, name) is not None for name in self.__struct_fields__)


def difference(said: Totals, settled: Totals) -> Totals:
    """What the provider says beyond what was settled (less than that: below zero). Only what is not equal is in it."""
    return Totals(
        replies=_beyond(said.replies, settled.replies),
        tokens_in=_beyond(said.tokens_in, settled.tokens_in),
        tokens_out=_beyond(said.tokens_out, settled.tokens_out),
        cost_usd=_beyond(said.cost_usd, settled.cost_usd),
    )


def spelled(off: Totals) -> str:
    """A difference in words: `+1,000 input tokens, -1 reply`; empty if there is none."""
    counted = [(off.replies, "reply", "replies")]
    counted += [
        (off.tokens_in, "input token", "input tokens"),
        (off.tokens_out, "output token", "output tokens"),
    ]
    parts = [f"{number:+,} {one if abs(number) == 1 else many}" for number, one, many in counted if number]
    return ", ".join([*parts, *([f"{off.cost_usd.normalize():+f} USD"] if off.cost_usd else [])])


def _beyond(said: N | None, settled: N | None) -> N | None:
    if said is None or settled is None or said == settled:
        return None
    return said - settled
