"""Stops a study that only repeats one failure."""

from dataclasses import dataclass, field

from trialrun.core.errors import BreakerOpen


@dataclass(kw_only=True, slots=True)
class Breaker:
    """Counts equal failures in a row at each place; a success at the place starts the count anew."""

    limit: int
    _last: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])

    def success(self, place: str) -> None:
        if place in self._last:
            del self._last[place]

    def failure(self, place: str, reason: str) -> None:
        """One more. Raises BreakerOpen when the limit is reached."""
        before, count = self._last.get(place, ("", 0))
        count = count + 1 if before == reason else 1
        self._last[place] = (reason, count)
        if count >= self.limit:
            raise BreakerOpen(
                f"{count} equal failures in a row, with no success between: {reason}",
                where=place,
                fix="mend the cause, then run the study again with `--retry-failed`; "
                "or raise `limits.identical_failures`",
            )
