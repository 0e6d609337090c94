"""One process may write to a study: an advisory lock on `study.lock`, with a note who holds it and since when.

The system drops the lock when its holder dies, however it dies; the note may stay behind and means nothing then.
"""

import fcntl
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from trialrun.core.errors import StudyLocked
from trialrun.store.failures import store_error

FILE = "study.lock"


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who works on the study."""

    pid: int
    host: str
    since: float


class StudyLock:
    """Held from construction until `release`."""

    def __init__(self, folder: Path, *, now: float) -> None:
        path = folder / FILE
        try:
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise store_error(error, path) from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._fd)
            if isinstance(error, BlockingIOError):
                raise _locked(path) from None
            raise store_error(error, path) from error
        note = msgspec.json.encode(Holder(pid=os.getpid(), host=socket.gethostname(), since=now))
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, note, 0)
        except OSError as error:
            os.close(self._fd)
            raise store_error(error, path) from error

    def release(self) -> None:
        """Let others in. The file stays: removing it would race with the next one who locks it."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = -1


def holder_of(folder: Path) -> Holder | None:
    """Who works on the study in this folder right now, or None."""
    path = folder / FILE
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _noted(path)
    except OSError:
        return None
    finally:
        os.close(fd)
    return None


def _noted(path: Path) -> Holder | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return None


def _locked(path: Path) -> StudyLocked:
    holder = _noted(path)
    who = "another process"
    if holder is not None:
        since = datetime.fromtimestamp(holder.since, UTC)
        who = f"process {holder.pid} on {holder.host}, since {since:%Y-%m-%d %H:%M:%S} UTC"
    return StudyLocked(
        f"somebody works on this study already: {who}",
        where=str(path.parent),
        fix="`trialrun watch` looks on; `trialrun stop` ends it in good order",
    )
