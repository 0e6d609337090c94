"""A judging pass as a plan: raters are its conditions, and each trial that is rated, so often, its replicates.

So whatever holds for the trials of a study holds for those that rate them: money, resuming, parking, progress, the
batch lane. What is different is where they come from, and that is here.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from trialrun.app.judging.passes import Pass
from trialrun.app.judging.sources import LABELLED
from trialrun.app.studies import Plan
from trialrun.core import chance, identity
from trialrun.core import facts as f
from trialrun.core.design import Design
from trialrun.core.reading.specs import Specs
from trialrun.core.state import TrialState
from trialrun.core.study import Condition, Factor, Level, Study, Trial
from trialrun.engine.parts import Slot
from trialrun.procedures.rating import rater
from trialrun.store.archive import Archive

FACTOR = "rater"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What is rated: a finished trial, or a labelled unit with its text."""

    trial: str = ""
    generation: int = 0
    unit: str = ""

    @property
    def name(self) -> str:
        return self.trial or LABELLED + identity.text_hash(self.unit)


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgingPlan(Plan):
    """A pass over a study."""

    base: Plan
    judging: Pass
    sources: tuple[Source, ...]

    @property
    def units(self) -> dict[f.Hash, str]:
        """The labelled units among the sources, by hash."""
        return {identity.text_hash(source.unit): source.unit for source in self.sources if source.unit}


def plan_judging(base: Plan, judging: Pass, sources: tuple[Source, ...]) -> JudgingPlan:
    """The pass over these sources."""
    study = _study_of(base.study, judging, len(sources))
    return JudgingPlan(
        study=study,
        design=Design(study),
        specs=Specs(study, lambda _: rater.VERSION),
        procedures=base.procedures,
        folder=base.folder,
        lane=base.lane,
        file=base.file,
        live_folder=base.live_folder,
        format=base.format,
        base=base,
        judging=judging,
        sources=sources,
    )


def _study_of(study: Study, judging: Pass, sources: int) -> Study:
    """The study as the engine sees it: its name, money and limits, and raters in place of conditions.

    The cap of a condition is for its own trials.
    """
    rubric = judging.rubric
    party = {
        "temperature": rubric.temperature,
        "params": dict(rubric.params),
    }
    levels = tuple(
        Level(label=model, value=model, sets=((f"parties.{rater.RATER}.model", model),))
        for model in judging.models
    )
    document = {
        "procedure": "rating",
        "parties": {rater.RATER: {"model": judging.models[0], **party}},
        "settings": {"judging": judging.id, "rubric": dict(rubric.document)},
    }
    return replace(
        study,
        document=document,
        factors=(Factor(name=FACTOR, levels=levels),),
        zips=(),
        listed=(),
        included=(),
        excluded=(),
        replicates=max(1, sources * judging.repeats),
        budget=replace(study.budget, condition_usd=None),
    )


def finished_sources(archive: Archive, *, forks: bool) -> tuple[Source, ...]:
    """The trials that can be rated: those that are done, with or without forks."""
    return tuple(
        Source(trial=state.id, generation=state.generation)
        for state in archive.trials("done")
        if forks or not state.forked_from
    )


def slots_of(plan: JudgingPlan) -> Iterator[Slot]:
    """Every rating trial, sources in an order drawn by the seed: no rater can learn from the order."""
    key = chance.derive(plan.judging.key, "judging", plan.judging.id)
    raters = list(plan.design)
    repeats, place = plan.judging.repeats, 0
    for index in chance.permuted(len(plan.sources) * repeats, key):
        source, repeat = plan.sources[index // repeats], index % repeats
        for number in chance.permuted(len(raters), chance.derive(key, "raters", index)):
            yield slot_of(plan, source, raters[number], repeat, place)
            place += 1


def slot_of(plan: JudgingPlan, source: Source, condition: Condition, repeat: int, place: int) -> Slot:
    """The trial in which this rater rates this source for the so manieth time."""
    model = condition.levels[FACTOR].label
    id_ = identity.judge_id(source.name, plan.judging.id, model, repeat, source.generation)
    unit = identity.text_hash(source.unit) if source.unit else ""
    return Slot(
        trial=trial_of(plan, id_, source.name, condition, repeat),
        planned=place,
        judges=f.Judges(
            judging=plan.judging.id, source=source.trial, generation=source.generation, unit=unit
        ),
        texts={unit: source.unit} if unit else {},
    )


def trial_of(plan: JudgingPlan, id_: str, source: str, condition: Condition, repeat: int) -> Trial:
    """The rating trial with this id."""
    spec = plan.specs.spec_of(condition)
    return Trial(
        id=id_,
        condition=condition,
        replicate=repeat,
        spec=replace(spec, settings={**spec.settings, rater.SOURCE: source}),
        key=chance.derive(plan.judging.key, "judging", id_),
    )


def slot_of_state(plan: JudgingPlan, state: TrialState, judges: f.Judges) -> Slot | None:
    """A rating trial that began, from what is known of it; None if its rater is no longer known."""
    condition = plan.design.by_labels(state.levels)
    if condition is None:
        return None
    source = judges.source or LABELLED + judges.unit
    trial = trial_of(plan, state.id, source, condition, state.replicate)
    return Slot(trial=trial, block=state.block, planned=state.planned, judges=judges)
