"""A study before it runs: rendered for people, and as data for `--json`."""

from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from itertools import islice

from trialrun.app.advice import Step, carrying_out
from trialrun.app.previewing import Contrast, Preview, Prompt, contrasts_of, prompts_of
from trialrun.app.studies import models_of
from trialrun.cli import amounts
from trialrun.cli.blocks import GAP, Block, Column, Line, Pairs, Table, Verbatim
from trialrun.cli.defuse import one_line
from trialrun.core.design import Schedule
from trialrun.core.discounts import BATCH_RULES
from trialrun.core.identity import trial_id
from trialrun.core.plan import Estimate, Range

_MOST_LEVELS = 12
_PAGE = 500


def headline(found: Preview) -> str:
    """`4 conditions x 6 replicates = 24 trials, about 1,680 calls (80 of them by the judge)`."""
    whole, judged = found.all_trials.calls, found.judge_calls
    judges = f" ({amounts.span(judged.low, judged.high)} of them by judges)" if judged.high else ""
    return (
        f"{amounts.plural(found.conditions, 'condition')}"
        f" x {amounts.plural(found.plan.study.replicates, 'replicate')}"
        f" = {amounts.plural(found.trials, 'trial')}, about {amounts.span(whole.low, whole.high)} calls{judges}"
    )


def expected(found: Preview) -> str:
    """Money and time as ranges, and what it can cost at most."""
    whole, plan = found.all_trials, found.plan
    if plan.lane == "batch":
        return f"batch: {in_batches(found)}{_capped(found)}"
    cost = "at an unknown cost"
    if whole.cost_usd is not None:
        cost = f"{_from_to(amounts.usd(whole.cost_usd.low), amounts.usd(whole.cost_usd.high))} USD"
    ceiling = ""
    if whole.ceiling_usd == 0:
        cost = "free"
    elif whole.ceiling_usd is not None:
        ceiling = f", at most about {amounts.usd(whole.ceiling_usd, round_up=True)}"
    return f"{plan.lane}: {cost}{ceiling}{_capped(found)}; {_time(found)}"


def _capped(found: Preview) -> str:
    """The budget, and whether it will do. A study that costs money and has none is told so."""
    budget = found.plan.study.budget.study_usd
    if budget is not None:
        return f", budget {amounts.usd(budget)}{_shortage(found, budget)}"
    is_paid = found.plan.lane != "rehearsal" and found.all_trials.ceiling_usd != 0
    return ", NO BUDGET" if is_paid else ""


def in_batches(found: Preview) -> str:
    """What it would cost in batches, and how many of them wait for each other."""
    whole = found.all_trials
    cost = "at an unknown cost"
    if whole.batch_cost_usd is not None:
        cost = (
            f"{_from_to(amounts.usd(whole.batch_cost_usd.low), amounts.usd(whole.batch_cost_usd.high))} USD"
        )
    waves = f"{amounts.span(whole.waves.low, whole.waves.high)} waves, each of"
    return f"{cost}; {'1 wave of' if whole.waves.high == 1 else waves} minutes to a day"


def _may_travel_in_batches(found: Preview) -> bool:
    """Whether every provider of the study is known to take batches for less."""
    providers = {model.partition("/")[0] for model in models_of(found.plan.study)}
    return bool(providers) and providers <= set(BATCH_RULES)


def _shortage(found: Preview, budget: Decimal) -> str:
    """Whether the budget will end the study before all trials are done."""
    whole = found.all_trials
    cost = whole.batch_cost_usd if found.plan.lane == "batch" else whole.cost_usd
    if cost is None or cost.high <= budget:
        return ""
    return " (NOT ENOUGH: it will stop the study early)" if cost.low > budget else " (may not be enough)"


def _time(found: Preview) -> str:
    """As long as the real models take; a rehearsal is faster, or does not wait at all."""
    study, low, high = found.plan.study, found.duration_s.low, found.duration_s.high
    if found.plan.lane == "rehearsal":
        if study.rehearsal.speed is None:
            return "no waiting"
        low, high = low / study.rehearsal.speed, high / study.rehearsal.speed
    elif any(model.startswith("local/") for model in models_of(study)):
        return "as long as this machine takes"
    side_by_side = amounts.plural(min(study.limits.open_trials, found.trials), "open trial")
    return f"{_from_to(amounts.duration(low), amounts.duration(high))} at {side_by_side}"


def blocks_of(found: Preview, named: str, *, with_prompts: bool, with_trials: bool) -> Iterator[Block]:
    """The whole preview. `named` is how the user calls the study."""
    study = found.plan.study
    yield Line(f"{study.name}: {headline(found)}", "title")
    if study.question:
        yield Line(one_line(study.question, 400), "dim")
    whole = found.all_trials
    read = amounts.tokens(whole.tokens_in.low, whole.tokens_in.high)
    written = amounts.tokens(whole.tokens_out.low, whole.tokens_out.high)
    tokens = f"{read} in, {written} out"
    lane, _, rest = expected(found).partition(": ")
    lanes = [(lane, rest)]
    if lane == "live" and _may_travel_in_batches(found):
        lanes.append(("batch", in_batches(found)))
    yield Pairs([*lanes, ("tokens", tokens), ("results", str(found.plan.folder))])
    if study.factors:
        yield GAP
        yield Table(
            [Column("factor"), Column("levels", is_prose=True)],
            [(each.name, _levels(each.name, found)) for each in study.factors],
        )
    if found.notes:
        yield GAP
    for note in found.notes:
        yield Line(f"note: {note}", "dim")
    if with_prompts:
        yield from _prompts(found)
    if with_trials:
        yield from _trials(found)
    yield GAP
    yield Line("next", "title")
    yield Pairs(list(_steps(found, named, with_prompts=with_prompts)), are_commands=True)


def _steps(found: Preview, named: str, *, with_prompts: bool) -> Iterator[Step]:
    flags = found.plan.overrides
    is_asked_for = found.plan.lane == "batch" and found.plan.study.lane != "batch"
    lane = ("--lane", "batch") if is_asked_for else ()
    if not with_prompts:
        read = carrying_out("plan", named, flags, *lane, "--prompts")
        yield read, "read what will be sent, and what each factor changes"
    yield carrying_out("rehearse", named, flags), "all of it on a built-in model, for nothing"
    yield carrying_out("run", named, flags, *lane), "run it"


def data_of(found: Preview, *, with_prompts: bool, with_trials: bool) -> dict[str, object]:
    """The same for programs."""
    plan = found.plan
    data: dict[str, object] = {
        "study": plan.study.name,
        "lane": plan.lane,
        "folder": str(plan.folder),
        "conditions": found.conditions,
        "replicates": plan.study.replicates,
        "trials": found.trials,
        "judge_calls": asdict(found.judge_calls),
        "one_trial": _estimate(found.one_trial),
        "all_trials": _estimate(found.all_trials),
        "duration_s": asdict(found.duration_s),
        "budget_usd": plan.study.budget.study_usd,
        "factors": {each.name: [level.label for level in each.levels] for each in plan.study.factors},
        "is_sampled": found.is_sampled,
        "notes": list(found.notes),
    }
    if with_prompts:
        data["prompts"] = [
            {
                "condition": each.condition.title,
                "requests": [_prompt_data(prompt) for prompt in prompts_of(each.short)],
            }
            for each in found.walked
        ]
        data["contrasts"] = [asdict(contrast) for contrast in contrasts_of(found)]
    if with_trials:
        data["planned"] = [
            {
                "planned": slot.planned,
                "block": slot.block,
                "trial": trial_id(slot.condition.id, slot.replicate),
                "condition": slot.condition.id,
                "replicate": slot.replicate,
                "levels": slot.condition.labels,
            }
            for slot in Schedule(plan.study, plan.design)
        ]
    return data


def _estimate(estimate: Estimate) -> dict[str, object]:
    """Money as text, as everywhere in our JSON."""

    def money(span: Range | None) -> object:
        return None if span is None else {"low": f"{span.low:.6f}", "high": f"{span.high:.6f}"}

    ceiling = estimate.ceiling_usd
    return {
        **asdict(estimate),
        "cost_usd": money(estimate.cost_usd),
        "batch_cost_usd": money(estimate.batch_cost_usd),
        "ceiling_usd": None if ceiling is None else f"{ceiling:.6f}",
    }


def _prompt_data(prompt: Prompt) -> dict[str, object]:
    return {
        "party": prompt.party,
        "purpose": prompt.purpose,
        "model": prompt.model,
        "messages": [{"role": message.role, "text": message.text} for message in prompt.messages],
    }


def _levels(factor: str, found: Preview) -> str:
    levels = next(each for each in found.plan.study.factors if each.name == factor).levels
    return amounts.listed([one_line(level.label, 40) for level in levels], _MOST_LEVELS)


def _prompts(found: Preview) -> Iterator[Block]:
    """The requests of the first condition in full; of the other levels, what is different."""
    if not found.walked:
        return
    first = found.walked[0]
    yield GAP
    yield Line(f"first requests of each party, for {first.condition.title}", "title")
    yield Line("what was said before them is rehearsed", "dim")
    for prompt in prompts_of(first.short):
        yield GAP
        purpose = f" ({prompt.purpose})" if prompt.purpose and prompt.purpose != prompt.party else ""
        yield Line(f"{prompt.party}{purpose} -> {prompt.model}", "loud")
        for message in prompt.messages:
            yield Line(message.role, "dim")
            yield Line(message.text, indent=2)
    contrasts = contrasts_of(found)
    if contrasts:
        yield GAP
        yield Line("what each factor changes in them", "title")
    for contrast in contrasts:
        yield GAP
        yield from _contrast(contrast)


def _contrast(contrast: Contrast) -> Iterator[Block]:
    yield Line(f"{contrast.factor}: {contrast.one} -> {contrast.other}")
    for line in contrast.lines:
        yield Verbatim(
            f"  {line}", "added" if line.startswith("+") else "removed" if line.startswith("-") else ""
        )
    if not contrast.lines:
        yield Line(
            "  nothing in the first requests; a later request, or a parameter such as the temperature", "dim"
        )


def _trials(found: Preview) -> Iterator[Block]:
    yield GAP
    yield Line("trials in planned order", "title")
    slots = iter(Schedule(found.plan.study, found.plan.design))
    while page := list(islice(slots, _PAGE)):
        ids = [trial_id(slot.condition.id, slot.replicate) for slot in page]
        wide = max(map(len, ids))
        rows = [
            f"{slot.planned:>8}  block {slot.block:<5}  {id_:<{wide}}  {slot.condition.title}"
            for slot, id_ in zip(page, ids, strict=True)
        ]
        yield Verbatim("\n".join(rows))


def _from_to(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"
