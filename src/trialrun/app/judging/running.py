"""Runs a judging pass: the session of a study whose trials rate others, in the same journal and from the same money."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from trialrun.app.exits import Exit
from trialrun.app.judging import passes, plans
from trialrun.app.judging.plans import JudgingPlan
from trialrun.app.judging.sources import Reader, Sources
from trialrun.app.judging.standing import unanswered_in
from trialrun.app.running import Control, Ran, Session
from trialrun.core import facts as f
from trialrun.core.ports import Procedure
from trialrun.core.state import TrialState, in_force
from trialrun.core.study import Spec
from trialrun.engine.engine import Run
from trialrun.engine.parts import Parts, Slot
from trialrun.gateway.gateway import Gateway
from trialrun.procedures.rating.rater import Rater
from trialrun.store.archive import Archive

if TYPE_CHECKING:
    from trialrun.gateway.batches.lane import BatchLane


class JudgingSession(Session):
    """One process's work on a judging pass."""

    @property
    def _pass_plan(self) -> JudgingPlan:
        return cast("JudgingPlan", self._plan)

    async def _agree(self) -> None:
        """The study's own plan stays in force; a higher budget is written down. Then the pass is declared."""
        whole, self._plan = self._plan, self._pass_plan.base
        try:
            await super()._agree()
        finally:
            self._plan = whole
        await passes.declare(self._journal, self._plan.folder, self._pass_plan.judging)

    def _is_mine(self, state: TrialState) -> bool:
        return state.judging == self._pass_plan.judging.id

    async def _take_up_failed(self) -> None:
        """Beside what failed, what ended with ratings that no usable answer gave."""
        unanswered = self._unanswered()
        async for state in self._journal.with_status("done"):
            if state.id in unanswered:
                self._journal.append(state.id, [f.Retried(reason="asked for by the user")])
        await super()._take_up_failed()

    async def _work(self, run: Run) -> tuple[Iterator[Slot], Sequence[Slot]]:
        return plans.slots_of(self._pass_plan), ()

    def _parts(self, gateway: Gateway, slow: "BatchLane | None") -> Parts:
        procedure = procedure_of(self._journal, self._pass_plan)

        def same(_: Spec) -> Procedure:
            return procedure

        return replace(super()._parts(gateway, slow), procedure_of=same)

    async def _close(self, run: Run, gateway: Gateway, control: Control) -> Ran:
        """A pass with ratings that nobody gave is not complete, although every rating trial came to its end."""
        ran = await super()._close(run, gateway, control)
        return replace(ran, exit=Exit.SOME_FAILED) if ran.exit is Exit.DONE and self._unanswered() else ran

    def _unanswered(self) -> set[str]:
        """The rating trials of this pass that lack ratings."""
        with Archive(self._plan.folder) as archive:
            mine = self._pass_plan.judging.id
            return {rating.by for rating in unanswered_in(archive) if rating.judging == mine}

    async def _reopen(self, state: TrialState) -> Slot | None:
        if not self._is_mine(state):
            return None
        judges = judges_in(await self._journal.facts_of(state.id))
        return None if judges is None else plans.slot_of_state(self._pass_plan, state, judges)


def procedure_of(reader: Reader, plan: JudgingPlan) -> Procedure:
    """The procedure of the pass, reading its evidence here."""
    rubric = plan.judging.rubric
    return Rater(rubric, Sources(reader, plan.base, rubric, units=plan.units).evidence_of)


def judges_in(entries: list[f.Entry]) -> f.Judges | None:
    """What a trial rates, if it rates anything."""
    return next((entry.fact for entry in in_force(entries) if isinstance(entry.fact, f.Judges)), None)
