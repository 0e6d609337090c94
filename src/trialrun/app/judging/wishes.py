"""From what a user says to `judge` to passes that are ready to run."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from trialrun.app.judging import passes, plans
from trialrun.app.judging.labelled import read_labelled
from trialrun.app.judging.passes import Pass
from trialrun.app.judging.plans import JudgingPlan, Source
from trialrun.app.studies import Lane, Plan, load, results_of
from trialrun.core.errors import UsageError
from trialrun.store.archive import Archive


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What shall be judged, by whom, how often."""

    rubric: Path | None = None
    """None: go on with every pass that was declared before."""
    models: tuple[str, ...] = ()
    repeats: int | None = None
    seed: int | None = None
    forks: bool = False
    labelled: Path | None = None
    """Rate these labelled units in place of the study's trials."""
    overrides: Mapping[str, object] = field(default_factory=dict[str, object])


def judging_plans(
    study: Path,
    wish: Wish,
    *,
    lane: Lane | None = None,
    given: Mapping[str, Callable[..., Awaitable[object]]] | None = None,
) -> list[JudgingPlan]:
    """The passes that are meant, over what is finished by now. `given` are procedures that are functions."""
    base = load(results_of(study, lane=lane), overrides=wish.overrides, given=given)
    with Archive(base.folder) as archive:
        known = passes.declared(archive.facts_of(""))
        if wish.rubric is not None:
            chosen = [passes.extended(one := _new(base, wish), known.get(one.id))]
        else:
            chosen = [passes.pass_of(fact, archive.texts(passes.hashes_of(fact))) for fact in known.values()]
            chosen = [_with_more(each, wish) for each in chosen]
        if not chosen:
            raise UsageError(
                "no rubric is given, and this study was not judged before",
                where=str(base.folder),
                fix=f"`trialrun judge {study} --with rubric.yaml`",
            )
        return [plans.plan_judging(base, each, _sources(archive, each)) for each in chosen]


def _new(base: Plan, wish: Wish) -> Pass:
    assert wish.rubric is not None  # noqa: S101  # the caller looked
    rubric, source = passes.read_rubric(wish.rubric)
    return passes.new_pass(
        rubric,
        source=source,
        models=wish.models,
        repeats=wish.repeats or 1,
        seed=base.study.seed if wish.seed is None else wish.seed,
        forks=wish.forks,
        labelled=read_labelled(wish.labelled, rubric) if wish.labelled else "",
    )


def _with_more(one: Pass, wish: Wish) -> Pass:
    """An earlier pass with raters and repeats added."""
    if wish.seed is not None or wish.labelled is not None:
        raise UsageError("a seed or labelled units need a rubric to go with", fix="add `--with rubric.yaml`")
    return passes.new_pass(
        one.rubric,
        source=one.source,
        models=(*one.models, *wish.models),
        repeats=max(one.repeats, wish.repeats or 1),
        seed=one.seed,
        forks=one.forks or wish.forks,
        labelled=one.labelled,
    )


def _sources(archive: Archive, one: Pass) -> tuple[Source, ...]:
    if one.labelled:
        return tuple(Source(unit=line) for line in one.labelled.splitlines())
    return plans.finished_sources(archive, forks=one.forks)
