"""Rating trials for whoever replays them: the pass that each belongs to, and its procedure."""

from trialrun.app.judging import passes, plans
from trialrun.app.judging.plans import JudgingPlan
from trialrun.app.judging.running import judges_in, procedure_of
from trialrun.app.studies import Plan
from trialrun.core.ports import Journal, Procedure
from trialrun.core.state import TrialState
from trialrun.engine.parts import Slot


class Judged:
    """The passes of one study, each read when first needed."""

    def __init__(self, journal: Journal, plan: Plan) -> None:
        self._journal = journal
        self._plan = plan
        self._plans: dict[str, JudgingPlan | None] = {}

    async def slot_of(self, state: TrialState) -> Slot | None:
        """The trial as it ran; None if what it rated has begun anew since, or its pass is not known."""
        plan = await self._plan_of(state.judging)
        judges = judges_in(await self._journal.facts_of(state.id))
        if plan is None or judges is None:
            return None
        if judges.source:
            source = (await self._journal.states([judges.source])).get(judges.source)
            if source is None or source.generation != judges.generation or source.status != "done":
                return None
        return plans.slot_of_state(plan, state, judges)

    def procedure_of(self, state: TrialState) -> Procedure:
        """The procedure of a trial whose slot was found."""
        plan = self._plans[state.judging]
        if plan is None:
            raise LookupError(state.judging)
        return procedure_of(self._journal, plan)

    async def _plan_of(self, judging: str) -> JudgingPlan | None:
        if judging not in self._plans:
            fact = passes.declared(await self._journal.facts_of("")).get(judging)
            self._plans[judging] = None
            if fact is not None:
                texts = await self._journal.texts(passes.hashes_of(fact))
                self._plans[judging] = plans.plan_judging(self._plan, passes.pass_of(fact, texts), ())
        return self._plans[judging]
