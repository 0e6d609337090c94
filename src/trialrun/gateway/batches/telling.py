"""What the batch lane says of its packs, and of what broke it."""

from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_CEILING, Decimal

from trialrun.core.packs import Pack
from trialrun.core.ports import PriceBook
from trialrun.core.study import Batching

_UNITS = ((3600.0, "h"), (60.0, "min"))


def line_of(pack: Pack) -> str:
    """Where a pack stands, for progress lines."""
    look = pack.look
    done = f", {look.done:,} done" if look is not None and look.done else ""
    return f"{pack.model}: a batch of {pack.requests:,} calls, {_word_of(pack)}{done}"


def lines_of(packs: Sequence[Pack]) -> str:
    """The same for many: `5 batches with 320 calls are out: 3 in_progress, 2 validating`."""
    words = Counter(_word_of(pack) for pack in packs)
    told = ", ".join(f"{count} {word}" for word, count in words.most_common())
    return f"{len(packs)} batches with {sum(pack.requests for pack in packs):,} calls are out: {told}"


def _word_of(pack: Pack) -> str:
    """The provider's own word for where it stands, once there is one."""
    return pack.look.word if pack.look is not None and pack.stage == "created" else pack.stage


def late_line(out: Sequence[Pack], settings: Batching, prices: PriceBook) -> str:
    """That the deadline has passed, what becomes of the packs that are out, and what it costs."""
    calls = sum(pack.requests for pack in out)
    told = f"the deadline of {_span(settings.deadline_s or 0)} has passed: "
    told += f"what is out ({calls:,} call{'s' * (calls > 1)}) is cancelled; " if calls else ""
    if settings.then == "wait":
        return f"{told}what has no reply then is left for a later run"
    more = _surcharge_usd(out, prices)
    most = f", for these at most {_at_most(more)} USD more" if more is not None and calls else ""
    return f"{told}what has no reply then goes live, at the live price{most}"


def _span(seconds: float) -> str:
    """A span of time in the unit in which it is said."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1.0, "s"))
    return f"{seconds / size:g} {unit}"


def _at_most(usd: Decimal) -> str:
    """An amount that is not understated: rounded up, and a small one with two digits that say something."""
    places = max(2, 1 - usd.adjusted()) if usd else 2
    return f"{usd.quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING):f}"


def _surcharge_usd(packs: Sequence[Pack], prices: PriceBook) -> Decimal | None:
    """At most so much more the calls of these packs cost live. None where a price is not known."""
    total = Decimal(0)
    for pack in packs:
        live, batch = prices.price_of(pack.model), prices.batch_price_of(pack.model)
        if live is None or batch is None or pack.ceiling_usd is None:
            return None
        rates = [(live.input, batch.input), (live.output, batch.output)]
        factor = max((dear / cheap for dear, cheap in rates if cheap), default=Decimal(1))
        total += pack.ceiling_usd * max(Decimal(0), factor - 1)
    return total


def bug_in(many: BaseExceptionGroup[BaseException]) -> BaseException:
    """What broke a courier; what stops the study never comes this way."""
    flat: list[BaseException] = []
    stack: list[BaseException] = [many]
    while stack:
        error = stack.pop()
        if isinstance(error, BaseExceptionGroup):
            stack.extend(error.exceptions)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        else:
            flat.append(error)
    return flat[0]
