"""Makes a study's folder self-contained: the plan as given and as resolved, and the code of the user's procedures."""

from decimal import Decimal
from pathlib import Path

import msgspec

from trialrun.app.changes import code_of
from trialrun.app.files import put
from trialrun.app.studies import CODE, GIVEN, RESOLVED, Plan, last_declared
from trialrun.core import facts as f
from trialrun.core.errors import StoreError
from trialrun.core.identity import text_hash
from trialrun.core.ports import Journal
from trialrun.core.reading.writing import write_yaml
from trialrun.core.version import VERSION

_HEAD = "# The study as it was run: prompts read in, defaults filled in. `trialrun run FOLDER` goes on from here.\n"


async def keep_plan(
    journal: Journal, plan: Plan, agreed: str, *, trial_usd: Decimal | None = None
) -> Decimal | None:
    """Declare the plan, if it is not the one that is in force already, and write its files.

    A run that was killed between the two left a declared plan without its files: the next one writes them. Returns what
    one trial of the plan is expected to cost, if that was ever reckoned.
    """
    code = code_of(plan)
    last = last_declared(await journal.facts_of(""))
    study = plan.study
    goes_on = last is not None and Path(plan.file) == plan.folder / RESOLVED
    overrides = {**(last.overrides if last is not None and goes_on else {}), **plan.overrides}
    if (
        last is not None
        and (last.digest, last.code, last.lane) == (study.digest, code, plan.lane)
        and (last.replicates, last.seed, last.overrides) == (study.replicates, study.seed, overrides)
        and last.reason == agreed
    ):
        if not goes_on:
            _write_files(plan, _document(plan))
        return trial_usd or last.trial_usd
    document = _document(plan)
    declared = f.Declared(
        digest=study.digest,
        version=VERSION,
        lane=plan.lane,
        source=text_hash(study.source),
        document=text_hash(document),
        code=code,
        seed=study.seed,
        replicates=study.replicates,
        reason=agreed,
        overrides=overrides,
        trial_usd=trial_usd or (last.trial_usd if last is not None else None),
    )
    journal.append("", [declared], {declared.source: study.source, declared.document: document})
    await journal.commit()
    _write_files(plan, document)
    return declared.trial_usd


def _document(plan: Plan) -> str:
    return msgspec.json.encode(plan.study.document, order="deterministic").decode()


def _write_files(plan: Plan, document: str) -> None:
    folder = plan.folder
    resolved = msgspec.json.decode(document.encode(), type=dict[str, object])
    try:
        for name in code_of(plan):
            source = plan.procedures.kind(name).source
            if source and ":" in name:
                # In the archive the code stands beside the plan, so the folder runs wherever it is copied to.
                kept = Path(CODE) / Path(name.rpartition(":")[0]).name
                put(folder / kept, source)
        put(folder / GIVEN, plan.study.source)
        # Last, as its presence says that the others are there.
        put(folder / RESOLVED, _HEAD + write_yaml(resolved))
    except OSError as error:
        raise StoreError(
            f"the study's folder cannot be written: {error.strerror}",
            where=str(folder),
            fix="make room, or choose another folder with `--folder`",
        ) from error
