"""`scenario.log`: everything that happened to one run, a line each, as the journal has it."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from trialrun.core import facts as f


def log(entries: Iterable[f.Entry]) -> str:
    """The log of a run; also of what no longer counts because the run began anew."""
    parties: dict[str, str] = {}
    lines: list[str] = []
    for entry in entries:
        fact = entry.fact
        if isinstance(fact, f.Held):
            parties[fact.at] = fact.party or "the call"
        who = parties.get(getattr(fact, "at", ""), "the call")
        for level, text in _lines(fact, who):
            lines.append(f"{moment(entry.at)} {level:<7} {' '.join(text.split())}\n")
    return "".join(lines)


def moment(at: float | None) -> str | None:
    """A time in UTC, with its zone; None stays None."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lines(fact: f.Fact, who: str) -> Iterator[tuple[str, str]]:
    match fact:
        case f.Started():
            yield "INFO", f"run begins: {', '.join(f'{k}={v}' for k, v in fact.levels.items()) or 'base'}"
        case f.TurnBegan():
            yield "INFO", f"turn {fact.turn} begins"
        case f.Held():
            yield "INFO", f"{who} is asked ({fact.purpose}), {fact.model}, attempt {fact.attempt}"
        case f.Settled():
            cost = "unknown" if fact.cost_usd is None else f"{fact.cost_usd:f} USD"
            yield "INFO", f"{who} answered in {fact.latency_s:.2f} s, cost {cost}, finish {fact.finish}"
            if fact.unreadable:
                yield "WARNING", f"the reply of {who} cannot be read: {fact.unreadable}"
        case f.Charged():
            yield "WARNING", f"billed once more: {fact.reason}"
        case f.Released():
            yield "WARNING", f"{who}: attempt failed, not billed: {fact.error}: {fact.reason}"
        case f.Doubted():
            yield "WARNING", f"{who}: attempt failed, perhaps billed: {fact.error}: {fact.reason}"
        case f.GaveUp():
            yield "ERROR", f"{who}: call given up: {fact.error}: {fact.reason}"
        case f.Confirmed():
            yield "INFO", f"looked up at the provider: cost {fact.cost_usd:f} USD"
        case f.Measured():
            value = "missing" if fact.value is None else fact.value
            yield "INFO", f"metric {fact.name}: {value}" + (f" ({fact.note})" if fact.note else "")
        case f.Asked():
            yield "INFO", f"{fact.party} is asked; a person answers"
        case f.Answered():
            yield "INFO", "answered by a person"
        case _:
            yield from _turns_of_fate(fact)


def _turns_of_fate(fact: f.Fact) -> Iterator[tuple[str, str]]:
    """How a run ended, was halted or went on."""
    match fact:
        case f.Waiting():
            yield "INFO", f"waits for {fact.waiting_for}"
        case f.Finished():
            yield "INFO", f"run completed: {fact.end_reason}"
        case f.Failed():
            yield "ERROR", f"run failed ({fact.boundary}): {fact.error}: {fact.reason}"
        case f.TimedOut():
            yield "ERROR", f"run timed out: {fact.reason}"
        case f.Cancelled():
            yield "ERROR", f"run called off: {fact.reason}"
        case f.StoppedByBudget():
            yield "WARNING", f"run halted: the next call could pass the {fact.level} budget"
        case f.Retried() | f.Superseded():
            anew = "begins anew" if isinstance(fact, f.Superseded) else "is taken up again"
            yield "INFO", f"run {anew}: {fact.reason}"
        case _:
            return
