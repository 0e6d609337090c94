"""A rehearsal under a changed plan begins anew: what was rehearsed is worth nothing, and should not count for money.

What was there is moved aside and not removed; the one before it goes. Real data is never touched here.
"""

import shutil
from pathlib import Path

from trialrun.app.studies import Plan, last_declared
from trialrun.core.errors import StoreError
from trialrun.store.archive import Archive

_OLD = ".old"


def set_aside(plan: Plan) -> Path | None:
    """Move an earlier rehearsal of this study away. Returns where it is now; None if there was none to move."""
    folder = plan.folder
    if plan.lane != "rehearsal" or not (folder / "study.db").exists():
        return None
    with Archive(folder) as archive:
        declared = last_declared(archive.facts_of(""))
        is_free = archive.holder() is None
    if declared is None or declared.lane != "rehearsal" or not is_free:
        return None
    old = folder.with_name(folder.name + _OLD)
    try:
        if (old / "study.db").exists():
            shutil.rmtree(old)
        folder.rename(old)
    except OSError as error:
        raise StoreError(
            f"the earlier rehearsal cannot be moved aside: {error.strerror}",
            where=str(folder),
            fix="remove it, or choose another folder with `--folder`",
        ) from error
    return old
