"""Carries out a run for `run`, `rehearse` and the demo: says what it will take, shows progress, ends with the table."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from trialrun.app.advice import Step
from trialrun.app.exits import Exit
from trialrun.app.live import Live
from trialrun.app.loops import run_to_end
from trialrun.app.previewing import preview_of_news
from trialrun.app.rehearsals import set_aside
from trialrun.app.running import Control, Options, Ran, Session, run_study
from trialrun.app.studies import Plan
from trialrun.cli import amounts
from trialrun.cli.conditions import shown
from trialrun.cli.preview import expected, headline
from trialrun.cli.progress import Progress, progress_on
from trialrun.cli.screen import Screen, Shown
from trialrun.cli.signals import stopping


def carried_out(
    screen: Screen, plan: Plan, options: Options, *, named: str, steps: Sequence[Step] | None = None
) -> Shown:
    """Run the study, and show where it stands then, with what the user may do next."""
    screen.folder = plan.folder
    ran = run_to_end(_announced(screen, plan, options))
    if ran is None:
        return shown(plan.folder, named, exit_=Exit.INTERRUPTED, steps=steps)
    return shown(plan.folder, named, exit_=ran.exit, error=ran.stopped_by, steps=steps)


def begin_anew(screen: Screen, plan: Plan) -> None:
    """Move an earlier rehearsal aside, and say so."""
    old = set_aside(plan)
    if old is not None:
        screen.note(f"begins anew; the earlier rehearsal is in {old}")


async def _announced(screen: Screen, plan: Plan, options: Options) -> Ran | None:
    found = await preview_of_news(plan)
    if found is not None:
        # Trials, money and time, before anything is spent; a study that cannot work ends here.
        screen.note(headline(found), "")
        screen.note(expected(found), "")
        options = replace(options, trial_usd=found.trial_usd)
    return await watched(screen, plan, options)


async def watched(
    screen: Screen, plan: Plan, options: Options, *, session_of: type[Session] = Session
) -> Ran | None:
    """Run with progress and Ctrl-C. None: stopped at once, and nobody could ask how it ended."""
    control = Control()
    last: list[Live] = []

    def watch(live: Live) -> None:
        last[:] = [live]
        progress.update(live)

    with (
        progress_on(screen) as progress,
        stopping(control, lambda wish, name: _say(progress, last, wish, name)),
    ):
        try:
            ran = await run_study(
                plan,
                options,
                watch=watch,
                control=control,
                tell=lambda line: progress.note(f"note: {line}"),
                session_of=session_of,
            )
        except asyncio.CancelledError:
            if not control.was_used:
                raise
            return None
        progress.update(ran.live, is_last=True)
        return ran


def _say(progress: Progress, last: list[Live], wish: int, name: str) -> None:
    if wish == 1:
        flying = last[0].in_flight if last else 0
        calls = (
            f"{amounts.plural(flying, 'call')} in flight will settle" if flying else "no call is in flight"
        )
        progress.note(f"{name}: starting nothing new; {calls}. Ctrl-C again stops at once.", "loud")
    elif wish == 2:
        progress.note(
            "stopping at once; calls in flight are in doubt and stay counted at their ceilings", "loud"
        )
