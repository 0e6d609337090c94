"""Carries out judging passes for `judge`: says what they will take, shows progress, ends with what they say."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from trialrun.app.exits import Exit
from trialrun.app.findings.calibrating import calibrations_of
from trialrun.app.findings.judgements import judgement_of
from trialrun.app.findings.tables import table_of
from trialrun.app.judging.plans import JudgingPlan
from trialrun.app.judging.previewing import JudgingPreview, preview_judging
from trialrun.app.judging.running import JudgingSession
from trialrun.app.running import Options
from trialrun.cli.blocks import GAP, Block
from trialrun.cli.calibrations import calibration_blocks, calibration_data
from trialrun.cli.execution import watched
from trialrun.cli.judgements import blocks_of, data_of, expected, headline, preview_blocks, preview_data
from trialrun.cli.screen import Screen, Shown
from trialrun.core.errors import TrialrunError


def planned(plans: Sequence[JudgingPlan], *, with_prompts: bool) -> Shown:
    """What the passes would take."""
    found = asyncio.run(_previews(plans))
    folder = plans[0].folder
    return Shown(
        data={
            "folder": str(folder),
            "passes": [preview_data(each, with_prompts=with_prompts) for each in found],
        },
        blocks=lambda: preview_blocks(found, table_of(folder), with_prompts=with_prompts),
    )


def carried_out(
    screen: Screen, plans: Sequence[JudgingPlan], options: Options, *, named: str, labelled: Path | None
) -> Shown:
    """Run one pass after the other, and show what they say. A pass that is stopped ends the rest; one that came to
    its end without all of its ratings does not."""
    worst, error = Exit.DONE, None
    for found in asyncio.run(_previews(plans)):
        screen.note(headline(found), "")
        screen.note(expected(found), "")
    ran: list[JudgingPlan] = []
    for plan in plans:
        ran.append(plan)
        code, error = _one(screen, plan, options)
        worst = code if code is not Exit.DONE else worst
        if code not in (Exit.DONE, Exit.SOME_FAILED):
            break
    shown = _shown(ran, named, worst, error)
    return shown if labelled is None else _with_labels(shown, ran[0], labelled)


def _one(screen: Screen, plan: JudgingPlan, options: Options) -> tuple[Exit, TrialrunError | None]:
    ran = asyncio.run(watched(screen, plan, options, session_of=JudgingSession))
    return (Exit.INTERRUPTED, None) if ran is None else (ran.exit, ran.stopped_by)


async def _previews(plans: Sequence[JudgingPlan]) -> list[JudgingPreview]:
    return [await preview_judging(plan) for plan in plans]


def _shown(plans: Sequence[JudgingPlan], named: str, code: Exit, error: TrialrunError | None) -> Shown:
    folder = plans[0].folder
    found = [judgement_of(folder, plan.judging.rubric, plan.judging.id) for plan in plans]
    table = table_of(folder)

    def blocks() -> list[Block]:
        shown = [[*blocks_of(each, table, named), GAP] for each in found]
        return [block for several in shown for block in several][:-1]

    data: dict[str, object] = {
        "study": table.study,
        "lane": table.lane,
        "rehearsal": table.is_rehearsal,
        "folder": str(folder),
        "passes": [data_of(each) for each in found],
    }
    if error is not None:
        data["stopped_by"] = {"what": error.what, "where": error.where, "fix": error.fix}
    return Shown(data=data, blocks=blocks, exit=code, error=error)


def _with_labels(shown: Shown, plan: JudgingPlan, labelled: Path) -> Shown:
    """The same with the comparison with the labels."""
    found = calibrations_of(plan.folder, plan.judging.rubric, plan.judging.id, labelled)
    return replace(
        shown,
        data={**shown.data, "calibration": calibration_data(found)},
        blocks=lambda: [*shown.blocks(), GAP, *calibration_blocks(found)],
    )
