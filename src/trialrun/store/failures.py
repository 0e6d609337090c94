"""What SQLite and the file system can refuse, in the words of somebody who has a study in a folder."""

import errno
from pathlib import Path

import apsw

from trialrun.core.errors import StoreCorrupt, StoreError

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOTHING_LOST = "everything that was stored before is safe"


def store_error(error: BaseException, path: Path, *, system_errno: int = 0) -> StoreError:
    """The same trouble as an error of ours."""
    where = str(path)
    if isinstance(error, StoreError):
        return error
    if isinstance(error, OSError) and error.errno is not None:
        system_errno = error.errno
    if isinstance(error, apsw.FullError) or system_errno in _NO_SPACE:
        return StoreError(
            f"the disk is full (or a quota is reached); {_NOTHING_LOST}",
            where=where,
            fix="make room, then `trialrun run` continues",
        )
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreError(
                f"another program keeps the database locked; {_NOTHING_LOST}",
                where=where,
                fix="close the program that has study.db open for writing, then `trialrun run` continues",
            )
        case apsw.NotADBError():
            return StoreCorrupt(
                "this file is not a study's database (or its beginning was overwritten)",
                where=where,
                fix="put the right study.db back from a copy, or move this one away to begin anew",
            )
        case apsw.CorruptError() | UnicodeDecodeError():
            return StoreCorrupt(
                "the database file is damaged",
                where=where,
                fix="`trialrun doctor` shows what can still be read; or put study.db back from a copy",
            )
        case apsw.ReadOnlyError() | apsw.PermissionsError() | PermissionError():
            return StoreError(
                "the folder or the database cannot be written to",
                where=where,
                fix="give yourself write access, or copy the study's folder to a place where you have it; "
                "`--folder` begins a new one elsewhere",
            )
        case apsw.CantOpenError() | FileNotFoundError() | NotADirectoryError() | IsADirectoryError():
            return StoreError(
                "there is no database that could be opened here",
                where=where,
                fix="check the path, and that the folder may be read and written",
            )
        case OSError() if system_errno == errno.EROFS:
            return StoreError(
                "the folder is on a file system that is mounted read-only",
                where=where,
                fix="copy the study's folder to a place that can be written to",
            )
        case _:
            return StoreError(
                f"reading or writing the study failed: {error}; {_NOTHING_LOST}",
                where=where,
                fix="check the disk and the folder, then `trialrun run` continues",
            )
