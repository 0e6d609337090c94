"""Facts as tests write them: with every field filled in, and any of them changed."""

from decimal import Decimal

from trialrun.core import facts as f
from trialrun.core.calls import Usage
from trialrun.core.ports import Journal


def started(condition: str = "warm-x", replicate: int = 0, **changes: object) -> f.Started:
    """The beginning of a trial."""
    values: dict[str, object] = {
        "condition": condition,
        "levels": {"tone": condition},
        "replicate": replicate,
        "block": replicate,
        "planned": 10 + replicate,
        "actual": 20 + replicate,
        "spec": "5" * 32,
        "session": "s1",
    }
    return f.Started(**(values | changes))  # pyright: ignore[reportArgumentType]  # a test's own values


def held(at: str, usd: str | None = "0.50", attempt: int = 1) -> f.Held:
    """A call leaves."""
    ceiling = None if usd is None else Decimal(usd)
    return f.Held(at=at, attempt=attempt, model="x/m", party="a", fingerprint="f" * 32, ceiling_usd=ceiling)


def settled(at: str, usd: str | None = "0.20", attempt: int = 1, **more: object) -> f.Settled:
    """A call is answered."""
    cost = None if usd is None else Decimal(usd)
    usage = Usage(tokens_in=100, tokens_out=10)
    return f.Settled(at=at, attempt=attempt, cost_usd=cost, usage=usage, **more)  # pyright: ignore[reportArgumentType]  # a test's own values


def finished(**values: object) -> f.Finished:
    """A trial ends well."""
    return f.Finished(values=values, end_reason="finished")


async def facts_in(journal: Journal, trial: str) -> list[f.Fact]:
    """What happened in a trial."""
    return [entry.fact for entry in await journal.facts_of(trial)]


async def write(journal: Journal, trial: str, *facts: f.TrialFact) -> None:
    """Append and commit."""
    journal.append(trial, facts)
    await journal.commit()
