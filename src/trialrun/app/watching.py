"""Looks on at a run in another process, by what that process publishes about itself."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from trialrun.app.live import Live
from trialrun.store.archive import Archive

_LOOK_S = 0.5


def followed(folder: Path, *, sleep: Callable[[float], None]) -> Iterator[Live]:
    """What the process that works on the study publishes, again and again until it ends; nothing if there is none."""
    with Archive(folder) as archive:
        while True:
            holder = archive.holder()
            live = _live(archive)
            if holder is None:
                return
            # A process that has just begun has not published anything yet; what is there is its predecessor's.
            if live is not None and live.pid == holder.pid:
                yield live
            sleep(_LOOK_S)


def _live(archive: Archive) -> Live | None:
    body = archive.live()
    try:
        return None if body is None else msgspec.convert(body, Live)
    except msgspec.ValidationError:
        # Another version of Trialrun runs it and says other things; the table at the end is still the truth.
        return None
