"""What a judging pass would take: raters walk a sample of the real talks with made-up answers, and nothing is spent."""

from collections.abc import Iterator
from dataclasses import dataclass

from trialrun.app.clock import SystemClock
from trialrun.app.judging.plans import JudgingPlan, Source, slot_of
from trialrun.app.judging.running import procedure_of
from trialrun.app.judging.sources import Sources, Still
from trialrun.app.lanes import Lanes
from trialrun.app.previewing import Prompt, prompts_of
from trialrun.app.walking import LONG, SHORT, walk_trial
from trialrun.core import chance
from trialrun.core.errors import UsageError
from trialrun.core.near import pick
from trialrun.core.paths import as_map
from trialrun.core.plan import Estimate, Range, Walk, duration_s, estimate_of, mean_of, scaled
from trialrun.core.ports import PriceBook
from trialrun.procedures.rating.evidence import Evidence, units_of
from trialrun.store.archive import Archive

MOST_WALKED = 12
"""So many talks are walked by each rater."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgingPreview:
    """A judging pass before it runs, or goes on."""

    plan: JudgingPlan
    trials: int
    """Rating trials of the pass as it is now."""
    left: int
    """Those that are not done yet."""
    one_trial: Estimate
    all_left: Estimate
    duration_s: Range
    prompts: tuple[Prompt, ...]
    """What the first rater would be asked first, with what it is told."""
    notes: tuple[str, ...]


async def preview_judging(plan: JudgingPlan, prices: PriceBook | None = None) -> JudgingPreview:
    """Walk a sample of the talks and add up. Raises UsageError when the rubric cannot work on this study."""
    if not plan.sources:
        raise UsageError(
            "there is nothing to judge yet: no trial is done",
            where=str(plan.folder),
            fix="`trialrun run` the study first",
        )
    prices = prices or Lanes(plan, SystemClock()).prices
    with Archive(plan.folder) as archive:
        walks = await _walks(plan, archive, prices)
        done = sum(state.judging == plan.judging.id and state.status == "done" for state in archive.judging())
    one = mean_of([estimate_of(short, long) for short, long in walks])
    left = max(0, plan.trials - done)
    return JudgingPreview(
        plan=plan,
        trials=plan.trials,
        left=left,
        one_trial=one,
        all_left=scaled(one, left),
        duration_s=duration_s(one, left, plan.study.limits.open_trials),
        prompts=tuple(prompts_of(walks[0][0])),
        notes=tuple(_notes(plan, walks)),
    )


async def _walks(plan: JudgingPlan, archive: Archive, prices: PriceBook) -> list[tuple[Walk, Walk]]:
    reader = Still(archive)
    sources = Sources(reader, plan.base, plan.judging.rubric, units=plan.units)
    sample = _sample(plan)
    _refuse_useless(plan, [await sources.evidence_of(source.name) for source in sample])
    walks: list[tuple[Walk, Walk]] = []
    for condition in plan.design:
        for place, source in enumerate(sample):
            trial = slot_of(plan, source, condition, 0, place).trial
            procedure = procedure_of(reader, plan)
            short = await walk_trial(trial, procedure, prices, quantile=SHORT)
            long = await walk_trial(trial, procedure, prices, quantile=LONG)
            if short.stopped_at:
                raise UsageError(
                    f"the rubric does not work on this study: {short.stopped_at}", where=str(plan.folder)
                )
            walks.append((short, long))
    return walks


def _sample(plan: JudgingPlan) -> list[Source]:
    """Some of what is to be rated, drawn by the pass's own chance."""
    key = chance.derive(plan.judging.key, "judging", plan.judging.id, "sample")
    order = list(chance.permuted(len(plan.sources), key))
    return [plan.sources[index] for index in order[:MOST_WALKED]]


def _refuse_useless(plan: JudgingPlan, sample: list[Evidence]) -> None:
    """A rubric about somebody who never speaks, or about a profile that nobody has, would be paid for nothing."""
    rubric = plan.judging.rubric
    where = str(plan.folder)
    parties = sorted({said.party for evidence in sample for said in evidence.talk})
    planned = as_map(plan.base.study.document.get("parties")) or {}
    known = list(dict.fromkeys([*parties, *planned]))
    if rubric.subject and rubric.subject not in known:
        raise UsageError(
            f"the rubric is about `{rubric.subject}`, and nobody here has that name",
            where=where,
            fix=f"`subject`: {pick(rubric.subject, known)}",
        )
    if not any(units_of(evidence, rubric) for evidence in sample):
        whose = f"a turn of `{rubric.subject}`" if rubric.granularity != "session" else "a word that was said"
        raise UsageError(
            f"no trial has {whose}", where=where, fix="choose another `subject` or `granularity`"
        )
    if rubric.sees_profile and any(evidence.profile is None for evidence in sample):
        raise UsageError(
            f"there are trials without a `{rubric.profile}` of `{rubric.subject}`",
            where=where,
            fix=f"say where it stands with `profile:` (a key of `parties.{rubric.subject}` or of its `values`), "
            "or remove `needs` and `truth`",
        )
    if any(item.truth for item in rubric.items) and any(isinstance(each.profile, str) for each in sample):
        raise UsageError(
            f"the `{rubric.profile}` of `{rubric.subject}` is a text, and `truth` compares fields",
            where=where,
            fix="write the profile as a map with the fields of the item",
        )
    unknown = sorted(set(rubric.roles) - set(known))
    if unknown:
        raise UsageError(
            f"`roles` names `{unknown[0]}`, and nobody here has that name",
            where=where,
            fix=pick(unknown[0], known),
        )


def _notes(plan: JudgingPlan, walks: list[tuple[Walk, Walk]]) -> Iterator[str]:
    rubric, judging = plan.judging.rubric, plan.judging
    if len(plan.sources) > MOST_WALKED:
        yield f"{MOST_WALKED} of {len(plan.sources)} talks were walked, picked at random; the ranges are theirs"
    if judging.repeats > 1 and rubric.temperature == 0:
        yield "at temperature 0 repeats show little of a rater's own doubt; `temperature: 1` in the rubric shows more"
    unknown = sorted(
        {call.request.model for _, walk in walks for call in walk.calls if call.cost_usd is None}
    )
    if unknown:
        from trialrun.providers.near_models import in_words

        yield f"nobody knows the price of {in_words(unknown)}: correct it, or state it under the study's `prices`"
