"""Where a run stands, in words."""

from trialrun.app.live import Live
from trialrun.cli import amounts


def line_of(live: Live) -> str:
    """Where a run stands, in one line."""
    parts = [trials_of(live), money_of(live)]
    if live.trials_per_minute is not None and live.left_s is not None:
        parts.append(f"{live.trials_per_minute:.3g} trials/min, about {amounts.duration(live.left_s)} left")
    parts += live.waits[:1]
    if live.stop:
        parts.append(f"stopping: {live.stop}; {amounts.plural(live.in_flight, 'call')} in flight")
    mark = "rehearsal, " if live.lane == "rehearsal" else ""
    return mark + "; ".join(parts)


def trials_of(live: Live) -> str:
    """`17 of 48 trials done, 1 failed`."""
    parts = [f"{live.done:,} of {amounts.plural(live.planned, 'trial')} done"]
    if live.failed:
        parts.append(f"{live.failed:,} failed")
    if live.parked:
        parts.append(f"{live.parked:,} waiting for an answer")
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
