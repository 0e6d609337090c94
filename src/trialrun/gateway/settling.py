"""A reply that has come, as facts: what it cost, its text, its raw body, what came beside it. For every lane.

The cost is reckoned from what the provider meters and never depends on whether the reply could be read. Nor does
whether it is kept: where an adapter of ours breaks on it, it is settled all the same, and the bug is told afterwards.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from trialrun.core import facts as f
from trialrun.core.calls import Parsed, RawReply, Request, Usage
from trialrun.core.envelope import open_
from trialrun.core.errors import KernelBug, ReplyUnreadable
from trialrun.core.identity import canonical, text_hash
from trialrun.core.ports import Provider
from trialrun.core.pricing import is_possible, paid_usd
from trialrun.core.study import Price


class Settlement(NamedTuple):
    """What goes into the journal for one reply, and what a procedure reads of it."""

    facts: list[f.TrialFact]
    texts: dict[str, str | bytes]
    settled: f.Settled
    parsed: Parsed
    problem: ReplyUnreadable | None
    bug: KernelBug | None = None
    """Our own fault in reading it. Whoever settles raises it, once everything is durable."""

    @property
    def cost_usd(self) -> Decimal | None:
        return self.settled.cost_usd


class Metered(NamedTuple):
    """What a provider counted, if that could be read and can be."""

    usage: Usage | None
    bug: KernelBug | None = None


def metered(provider: Provider, raw: RawReply) -> Metered:
    """The tokens of a reply. No count is better than an impossible one: what is unknown stays held."""
    try:
        usage = provider.meter(raw)
    except Exception as error:  # noqa: BLE001 - an adapter's own bug must not lose what was paid for
        return Metered(usage=None, bug=_bug(provider, error))
    return Metered(usage=usage if usage is not None and is_possible(usage) else None)


def settlement_of(
    raw: RawReply,
    request: Request,
    provider: Provider,
    price: Price | None,
    counted: Metered,
    *,
    at: str,
    attempt: int,
    turn: int,
    pack: str = "",
) -> Settlement:
    """The facts of a reply. `request` needs no messages: only its settings and its schema are looked at."""
    usage = counted.usage
    parsed, problem, bug = _parsed(provider, raw, request)
    stored = open_(raw.body, parsed.text)
    texts: dict[str, str | bytes] = {(raw_name := text_hash(stored)): stored}
    text_name = extras_name = ""
    if problem is None or problem.text is not None:
        text = parsed.text.encode("utf-8", "surrogatepass")
        texts[(text_name := text_hash(text))] = text
    if parsed.extras:
        extras = canonical(parsed.extras).decode()
        extras_name = text_hash(extras)
        texts[extras_name] = extras
    settled = f.Settled(
        at=at,
        attempt=attempt,
        cost_usd=paid_usd(usage, price) if usage else None,
        usage=usage,
        text=text_name,
        raw=raw_name,
        finish=parsed.finish,
        model=parsed.model,
        request_id=raw.request_id,
        latency_s=round(raw.latency_s, 6),
        priced_by=_priced_by(usage, price, provider),
        unreadable=problem.what if problem else "",
        tool_calls=parsed.tool_calls,
        extras=extras_name,
        seed=parsed.seed,
        dropped=parsed.dropped,
        pack=pack,
    )
    facts: list[f.TrialFact] = [settled]
    if extras_name:
        facts.append(_artefact(at, turn, extras_name, texts))
    return Settlement(
        facts=facts, texts=texts, settled=settled, parsed=parsed, problem=problem, bug=counted.bug or bug
    )


def _parsed(
    provider: Provider, raw: RawReply, request: Request
) -> tuple[Parsed, ReplyUnreadable | None, KernelBug | None]:
    try:
        return provider.parse(raw, request), None, None
    except ReplyUnreadable as error:
        return Parsed(text=error.text or "", finish="other"), error, None
    except Exception as error:  # noqa: BLE001 - as above
        bug = _bug(provider, error)
        return Parsed(text="", finish="other"), ReplyUnreadable(str(bug)), bug


def _priced_by(usage: Usage | None, price: Price | None, provider: Provider) -> str:
    if usage is not None and usage.billed_usd is not None:
        return f"{provider.name}: as billed"
    return price.source if price else ""


def _bug(provider: Provider, error: Exception) -> KernelBug:
    bug = KernelBug(f"reading a reply of {provider.name} broke: {type(error).__name__}: {error}")
    bug.__cause__ = error
    return bug


def _artefact(at: str, turn: int, name: str, texts: Mapping[str, str | bytes]) -> f.ArtefactKept:
    """What came beside a reply, kept with it in one write: no run may end between the two."""
    content = texts[name]
    return f.ArtefactKept(
        at=at,
        name=f"extras:{at}",
        content=name,
        media_type="application/json",
        size_bytes=len(content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content),
        turn=turn,
    )
