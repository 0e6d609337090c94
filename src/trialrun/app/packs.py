"""The batches of a study as a person sees them: where each stands, and what to do about one in doubt."""

from pathlib import Path

from trialrun.app.clock import SystemClock
from trialrun.core import pack_facts as p
from trialrun.core.errors import StudyLocked, UsageError
from trialrun.core.near import nearest
from trialrun.core.packs import Pack, packs_in
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal


def packs_of(folder: Path) -> list[Pack]:
    """All batches of a study, oldest first."""
    with Archive(folder) as archive:
        return list(packs_in(archive.facts_of("")).values())


async def decide(folder: Path, named: str, decision: p.Decision, *, batch: str = "") -> Pack:
    """Write a person's decision about a batch in doubt down; the next run carries it out."""
    pack = _in_doubt(packs_of(folder), named, folder)
    if decision == "adopt" and not batch:
        raise UsageError(
            "nobody said which batch of the provider it is",
            where=pack.id,
            fix="give its id: `--as adopt --batch ID`",
        )
    if decision == "accept" and not pack.files:
        raise UsageError(
            "there are no results to accept", where=pack.id, fix="use `--as send-again` or `--as unbilled`"
        )
    try:
        journal = SqliteJournal.open(folder, clock=SystemClock())
    except StudyLocked as error:
        raise UsageError(
            "a process is running this study",
            where=str(folder),
            fix="stop it first with `trialrun stop`; a decision is carried out at the beginning of a run",
        ) from error
    try:
        journal.append("", [p.PackDecided(pack=pack.id, decision=decision, batch=batch)])
    finally:
        await journal.close()
    return pack


def _in_doubt(packs: list[Pack], named: str, folder: Path) -> Pack:
    """The pack that a person means, by our id or the provider's."""
    found = next((pack for pack in packs if named in (pack.id, pack.batch)), None)
    doubted = [pack.id for pack in packs if pack.stage == "doubted"]
    if found is None:
        near = nearest(named, [pack.id for pack in packs])
        fix = f"did you mean `{near}`?" if near else f"in doubt are: {', '.join(doubted) or 'none'}"
        raise UsageError(f"the study has no batch `{named}`", where=str(folder), fix=fix)
    if found.stage != "doubted":
        raise UsageError(
            f"the batch `{named}` is not in doubt but {found.stage}",
            where=str(folder),
            fix=f"in doubt are: {', '.join(doubted) or 'none'}",
        )
    return found
