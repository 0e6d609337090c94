"""What would run: conditions, trials, calls, tokens, money and time as ranges, and prompts to read."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from trialrun.app.clock import SystemClock
from trialrun.app.lanes import Lanes
from trialrun.app.studies import Plan, ran_before
from trialrun.app.walking import MOST_WALKED, Walked, refuse_dead_factors, walk_all
from trialrun.core.calls import Message, Request
from trialrun.core.plan import Estimate, Range, Walk, duration_s, estimate_of_draws, mean_of, scaled
from trialrun.core.ports import PriceBook
from trialrun.core.study import Condition, Factor


@dataclass(frozen=True, kw_only=True, slots=True)
class Preview:
    """A study before it runs."""

    plan: Plan
    conditions: int
    trials: int
    judge_calls: Range
    one_trial: Estimate
    all_trials: Estimate
    duration_s: Range
    walked: tuple[Walked, ...]
    notes: tuple[str, ...]

    @property
    def trial_usd(self) -> Decimal | None:
        """What one trial is expected to cost in its lane, with long replies."""
        one = self.one_trial
        cost = one.batch_cost_usd if self.plan.lane == "batch" else one.cost_usd
        return None if cost is None else Decimal(f"{cost.high:.9f}")

    @property
    def is_sampled(self) -> bool:
        return len(self.walked) < self.conditions


async def preview(plan: Plan, prices: PriceBook) -> Preview:
    """Walk the study and add up. Raises StudyMistakes for dead factors and for procedures that fail anyway."""
    walked = await walk_all(plan, prices)
    refuse_dead_factors(plan, walked)
    one = mean_of([estimate_of_draws(each.draws) for each in walked])
    judged = [_judge_calls(walk) for each in walked for pair in each.draws for walk in pair]
    trials = plan.trials
    return Preview(
        plan=plan,
        conditions=plan.design.count(),
        trials=trials,
        judge_calls=Range(low=min(judged) * trials, high=max(judged) * trials),
        one_trial=one,
        all_trials=scaled(one, trials),
        duration_s=duration_s(one, trials, plan.study.limits.open_trials),
        walked=tuple(walked),
        notes=tuple(_notes(plan, walked)),
    )


async def preview_of_news(plan: Plan) -> Preview | None:
    """The preview of a plan that has not run as it is now; None for one that only goes on."""
    if ran_before(plan):
        return None
    return await preview(plan, Lanes(plan, SystemClock()).prices)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """One request as it would leave, the first of its party in a trial."""

    party: str
    purpose: str
    request: Request
    is_opening: bool
    """Whether it is the first call of its trial: then no word in it comes from a model."""

    @property
    def model(self) -> str:
        return self.request.model

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.request.messages


def prompts_of(walk: Walk) -> list[Prompt]:
    """The first request of each party and purpose."""
    seen: dict[tuple[str, str], Prompt] = {}
    for number, call in enumerate(walk.calls):
        prompt = Prompt(party=call.party, purpose=call.purpose, request=call.request, is_opening=number == 0)
        seen.setdefault((call.party, call.purpose), prompt)
    return list(seen.values())


@dataclass(frozen=True, kw_only=True, slots=True)
class Contrast:
    """What differs between two levels of a factor, all other factors equal."""

    factor: str
    one: str
    other: str
    lines: tuple[str, ...]


def contrasts_of(preview_: Preview) -> list[Contrast]:
    """For each factor: how the first requests of its first level differ from those of each other level."""
    found: list[Contrast] = []
    for factor in preview_.plan.study.factors:
        by_label = {
            each.condition.levels[factor.name].label: each for each in _others_equal(factor, preview_.walked)
        }
        labels = list(by_label)
        for label in labels[1:]:
            one, other = by_label[labels[0]], by_label[label]
            lines = _diff(prompts_of(one.short), prompts_of(other.short))
            found.append(Contrast(factor=factor.name, one=labels[0], other=label, lines=tuple(lines)))
    return found


def _others_equal(factor: Factor, walked: Sequence[Walked]) -> list[Walked]:
    """Of the walked conditions, those that differ from the first in this factor alone, or in little else."""
    if not walked:
        return []
    first = walked[0].condition
    found: list[Walked] = [walked[0]]
    for level in factor.levels:
        if level.label == first.levels[factor.name].label:
            continue
        same = [each for each in walked if each.condition.levels[factor.name].label == level.label]
        if same:
            found.append(min(same, key=lambda each: _distance(each.condition, first)))
    return found


def _distance(one: Condition, other: Condition) -> int:
    return sum(one.levels[name].label != other.levels[name].label for name in one.levels)


def _diff(one: Sequence[Prompt], other: Sequence[Prompt]) -> list[str]:
    old = [line for prompt in one for line in _authored(prompt)]
    new = [line for prompt in other for line in _authored(prompt)]
    pieces = difflib.unified_diff(old, new, lineterm="", n=0)
    return [line for line in pieces if not line.startswith(("---", "+++", "@@"))]


def _authored(prompt: Prompt) -> list[str]:
    """What the study's author put into a request; what models said before is made up in a walk."""
    request = prompt.request
    lines = [f"[{prompt.party}] model {request.model}, at most {request.max_tokens} tokens"]
    if request.temperature is not None:
        lines.append(f"[{prompt.party}] temperature {request.temperature}")
    lines += [f"[{prompt.party}] {name} {value}" for name, value in sorted(request.params.items())]
    for message in request.messages:
        if message.role == "system" or prompt.is_opening:
            lines += [f"[{prompt.party}] {message.role}: {line}" for line in message.text.splitlines()]
    return lines


def _judge_calls(walk: Walk) -> int:
    return sum(call.purpose == "judge" for call in walk.calls)


def _notes(plan: Plan, walked: Sequence[Walked]) -> list[str]:
    notes: list[str] = []
    if plan.design.count() > len(walked):
        notes.append(
            f"{len(walked)} of {plan.design.count()} conditions were walked, picked at random; "
            "the ranges are theirs, and dead factors were looked for among them"
        )
    stopped = sorted({each.short.stopped_at for each in walked if each.short.stopped_at})
    notes += [f"the walk ended early at {place}: calls after it are not counted" for place in stopped]
    unknown = sorted(
        {call.request.model for each in walked for call in each.long.calls if call.cost_usd is None}
    )
    if unknown:
        from trialrun.providers.near_models import in_words

        notes.append(f"nobody knows the price of {in_words(unknown)}: correct it, or state it under `prices`")
    bounds = calls_a_turn(plan, walked)
    if bounds:
        told = "; ".join(f"{party} {method} {_told(calls)}" for (party, method), calls in bounds.items())
        notes.append(f"calls a turn, whatever is said: {told}")
    return notes


def calls_a_turn(plan: Plan, walked: Sequence[Walked]) -> dict[tuple[str, str], Range]:
    """Fewest and most calls for one utterance, by party and method, as the methods that are used declare them."""
    found: dict[tuple[str, str], Range] = {}
    for each in walked:
        spec = plan.specs.spec_of(each.condition)
        for name, methods in plan.procedures.kind(spec.procedure).facts.parties.methods.items():
            method = spec.parties[name].method if name in spec.parties else ""
            if method in methods:
                low, high = methods[method].calls
                found[name, method] = Range(low=low, high=high)
    return dict(sorted(found.items()))


def _told(calls: Range) -> str:
    return f"{calls.low:g}" if calls.low == calls.high else f"{calls.low:g} to {calls.high:g}"


__all__ = [
    "MOST_WALKED",
    "Contrast",
    "Preview",
    "Prompt",
    "calls_a_turn",
    "contrasts_of",
    "preview",
    "preview_of_news",
    "prompts_of",
]
