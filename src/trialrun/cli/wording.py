"""Where a run stands, in words."""

from trialrun.app.live import Live
from trialrun.cli import amounts


def line_of(live: Live) -> str:
    """Where a run stands, in one line."""
    parts = [trials_of(live), calls_of(live), money_of(live)]
    if live.left_s is not None:
        parts.append(left_of(live.left_s))
    parts += live.waits[:1]
    if live.stop:
        parts.append(f"stopping: {live.stop}; {amounts.plural(live.in_flight, 'call')} in flight")
    mark = "rehearsal, " if live.lane == "rehearsal" else ""
    return mark + "; ".join(parts)


def calls_of(live: Live) -> str:
    """`312 calls answered, 24 in flight`."""
    parts = [f"{amounts.plural(live.calls, 'call')} answered"]
    if live.in_flight:
        parts.append(f"{live.in_flight:,} in flight")
    if live.retries:
        parts.append(f"{live.retries:,} repeated")
    return ", ".join(parts)


def left_of(seconds: float) -> str:
    """`about 4 min left`."""
    return f"about {amounts.duration(seconds)} left" if seconds >= 1 else "nearly done"


def trials_of(live: Live) -> str:
    """`17 of 48 trials done, 1 failed`."""
    parts = [f"{live.done:,} of {amounts.plural(live.planned, 'trial')} done"]
    if live.failed:
        parts.append(f"{live.failed:,} failed")
    if live.parked:
        whom = "" if live.lane == "batch" else " for an answer"  # there, for a batch or for a person
        parts.append(f"{live.parked:,} waiting{whom}")
    return ", ".join(parts)


def money_of(live: Live) -> str:
    """`0.12 USD spent, 0.03 held, 19.85 left of 20.00`."""
    parts = [f"{amounts.usd(live.spent_usd)} USD spent"]
    if live.held_usd:
        parts.append(f"{amounts.usd(live.held_usd)} held")
    if live.budget_usd is not None:
        left = live.budget_usd - live.spent_usd - live.held_usd
        parts.append(f"{amounts.usd(left)} left of {amounts.usd(live.budget_usd)}")
    if live.unknown_costs:
        parts.append(f"cost unknown of {amounts.plural(live.unknown_costs, 'call')}")
    return ", ".join(parts)


def clock(seconds: float) -> str:
    """`04:31`, or `1:04:31`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
