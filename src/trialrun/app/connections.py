"""How many connections a run may have: all that the machine grants. What is in flight is bounded by the gateway alone.

A bound of its own at the connections would hold up calls that are under way already, such as those that one trial makes
side by side; none at all would end in failures to connect where the machine grants few open files.
"""

import resource
from contextlib import suppress

_MOST = 10_000
_OTHERS = 100
"""Open files that are no connections."""


def most_connections() -> int:
    """Ask the machine for as many open files as it lets us have, and say how many may be connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST + _OTHERS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    granted = _MOST + _OTHERS if soft == resource.RLIM_INFINITY else soft
    return max(1, min(_MOST, granted - _OTHERS))
