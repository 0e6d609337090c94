"""What changed since the study last ran, which trials that touches, and what the user agreed to do about it.

More replicates or levels only extend a study. A changed prompt, model, setting or procedure means that trials which
ran are no longer what the plan says; then nothing is run before the user has said `redo` or `keep`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from trialrun.app.studies import Plan, last_declared
from trialrun.core import facts as f
from trialrun.core.design import Design
from trialrun.core.differences import Change, differences
from trialrun.core.errors import ConsentNeeded
from trialrun.core.ports import Journal
from trialrun.core.reading.parse import archived
from trialrun.core.reading.specs import Specs, is_own_method, own_methods
from trialrun.core.state import TrialState

Consent = Literal["ask", "redo", "keep"]
_NOT_OF_TRIALS = (
    "replicates",
    "budget_usd",
    "limits",
    "rehearsal",
    "lane",
    "batch",
    "question",
    "notice",
    "prices",
    "measures",
    "sources",
    "design",
)
_MOST_LINES = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class Touched:
    """Trials that ran under another specification than the plan's."""

    ended: int = 0
    unfinished: int = 0
    unplanned: int = 0
    """Trials of conditions that the plan no longer has. They stay as they are, outside the tables."""


async def settle_changes(journal: Journal, plan: Plan, consent: Consent) -> str:
    """Compare with the plan that ran last. Returns what was agreed, for the journal; raises ConsentNeeded.

    What was kept once may be redone at any later run.
    """
    last = last_declared(await journal.facts_of(""))
    code = code_of(plan)
    is_same = last is not None and last.digest == plan.study.digest and last.code == code
    if last is None or (is_same and consent != "redo"):
        return last.reason if last else ""
    then = await _plan_then(journal, last)
    touched, ids = await _touched(journal, plan, then, forgets=consent == "redo")
    if not touched.ended + touched.unfinished:
        unplanned = f"{touched.unplanned} trials are no longer planned; kept" if touched.unplanned else ""
        return last.reason if is_same else unplanned
    listed = await _listed(journal, plan, last, code)
    if consent == "ask":
        raise _refusal(touched, listed)
    redone = 0
    for trial, is_ended in ids:
        if consent == "redo" or not is_ended:
            journal.append(trial, [f.Superseded(reason="the plan changed")])
            redone += 1
    await journal.commit()
    if is_same:
        return f"{redone} trials that were kept under an earlier plan are redone"
    kept = touched.ended if consent == "keep" else 0
    return f"changed plan ({'; '.join(listed)}): {redone} trials redone, {kept} kept as they were"


def code_of(plan: Plan) -> dict[str, str]:
    """Fingerprints of the procedures of all conditions."""
    names = {str(plan.study.document.get("procedure", "conversation"))}
    for factor in plan.study.factors:
        for level in factor.levels:
            names |= {str(value) for path, value in level.sets if path == "procedure"}
    names |= own_methods(plan.study.document)
    return {name: plan.procedures.fingerprint(name) for name in sorted(names)}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Then:
    """The plan that ran last. What it already said of a trial was agreed to, and is not asked again."""

    seed: int
    design: Design
    specs: Specs

    def spec_of(self, state: TrialState) -> str | None:
        condition = self.design.by_labels(state.levels)
        return None if condition is None else self.specs.spec_of(condition).fingerprint


async def _plan_then(journal: Journal, last: f.Declared) -> _Then:
    study = archived(await _document_of(journal, last))
    return _Then(
        seed=last.seed, design=Design(study), specs=Specs(study, lambda name: last.code.get(name, ""))
    )


async def _document_of(journal: Journal, declared: f.Declared) -> dict[str, object]:
    stored = (await journal.texts([declared.document])).get(declared.document, "{}")
    return msgspec.json.decode(stored.encode(), type=dict[str, object])


async def _touched(
    journal: Journal, plan: Plan, then: "_Then", *, forgets: bool
) -> tuple[Touched, list[tuple[str, bool]]]:
    """The trials that the plan no longer describes. Unless it `forgets`, what was agreed to before is no change."""
    ended = unfinished = unplanned = 0
    ids: list[tuple[str, bool]] = []
    async for state in journal.with_status():
        if state.forked_from or state.judging or state.status == "planned":
            continue
        spec = spec_now(plan, state)
        if spec is None:
            unplanned += 1
        elif then.seed != plan.study.seed or (
            spec != state.spec and (forgets or spec != then.spec_of(state))
        ):
            ended, unfinished = ended + state.is_ended, unfinished + (not state.is_ended)
            ids.append((state.id, state.is_ended))
    return Touched(ended=ended, unfinished=unfinished, unplanned=unplanned), ids


def spec_now(plan: Plan, state: TrialState) -> str | None:
    """The fingerprint that the plan gives to this trial's condition; None if it has no such condition."""
    condition = plan.design.by_labels(state.levels)
    return None if condition is None else plan.specs.spec_of(condition).fingerprint


async def _listed(journal: Journal, plan: Plan, last: f.Declared, code: Mapping[str, str]) -> list[str]:
    """The changes, one line each."""
    before = await _document_of(journal, last)
    changes = [
        change
        for change in differences(before, plan.study.document)
        if change.path.split(".")[0] not in _NOT_OF_TRIALS
    ]
    lines = [_line(change) for change in changes]
    for name, mark in code.items():
        if last.code.get(name) not in (None, mark):
            kind = (
                "method" if is_own_method(name) and name in own_methods(plan.study.document) else "procedure"
            )
            lines.append(f"the code of {kind} `{name}` changed")
    return lines or ["the order or spelling of the plan"]


def _line(change: Change) -> str:
    return str(change)


def _refusal(touched: Touched, listed: list[str]) -> ConsentNeeded:
    shown = "\n".join(f"    {line}" for line in listed[:_MOST_LINES])
    more = f"\n    … and {len(listed) - _MOST_LINES} more" if len(listed) > _MOST_LINES else ""
    also = (
        f" {touched.unplanned} more are no longer planned and stay as they are." if touched.unplanned else ""
    )
    return ConsentNeeded(
        f"the plan changed under {touched.ended + touched.unfinished} trials that already ran\n{shown}{more}\n"
        f"  {touched.ended} of them ended, {touched.unfinished} are unfinished.{also}",
        fix="`--redo` runs all of them anew (what they cost stays counted); `--keep` keeps the ended ones and notes "
        "the deviation; or undo the change",
    )
