"""Moments as JSON APIs write them."""

from datetime import UTC, datetime


def timestamp(at: float | None) -> str | None:
    """RFC 3339, in UTC; None for what never came."""
    if at is None:
        return None
    return datetime.fromtimestamp(at, tz=UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
