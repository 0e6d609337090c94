"""Walks the procedure of a condition with short and long rehearsed replies: no model, no money, no side effect.

One mechanism gives what a user wants to know before paying: the calls of a trial, its prompts, a price range, and
whether a factor reaches the outside at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from trialrun.app.clock import SystemClock
from trialrun.app.lanes import check_spelling, rehearsing
from trialrun.app.studies import Plan
from trialrun.core import chance
from trialrun.core import facts as f
from trialrun.core.calls import Call
from trialrun.core.design import in_file_order
from trialrun.core.errors import KernelBug, Mistake, StudyMistakes, TrialrunError
from trialrun.core.identity import digest, text_hash
from trialrun.core.plan import Walk, WalkedCall
from trialrun.core.ports import Answer, PriceBook, Procedure, Provider
from trialrun.core.pricing import ceiling_usd, cost_usd
from trialrun.core.reading.source import read_source
from trialrun.core.study import Condition, Limits, Trial
from trialrun.engine.record import Record
from trialrun.engine.sitting import Sitting
from trialrun.engine.time_limit import TimeLimit
from trialrun.engine.trials import run_trial
from trialrun.testing.memory import MemoryJournal

SHORT, LONG = 0.1, 0.9
MOST_WALKED = 128
_DRAWS, _ENOUGH_CALLS = 16, 1000
"""A few conditions are walked with several draws of their chance each, as what a trial takes may depend on it: so many
in all, or until so many calls were made."""
_WALK_LIMITS = Limits(trial_timeout_s=60.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Walked:
    """A condition with its walks."""

    condition: Condition
    short: Walk
    long: Walk
    others: tuple[tuple[Walk, Walk], ...] = ()
    """The same with other draws of its chance, for what a trial takes on average."""

    @property
    def draws(self) -> tuple[tuple[Walk, Walk], ...]:
        return ((self.short, self.long), *self.others)


class _Footpath:
    """The door of a walk: answers at once from the rehearsal provider and writes down what would have left."""

    def __init__(self, provider: Provider, prices: PriceBook) -> None:
        self.calls: list[WalkedCall] = []
        self._provider = provider
        self._prices = prices

    async def ask(
        self, call: Call, *, attempts_before: int, delta: f.RequestDelta, texts: Mapping[str, str | bytes]
    ) -> Answer:
        if call.request.params:
            check_spelling(call)
        raw = await self._provider.send(call, self._provider.prepare(call), attempt=1, timeout_s=60.0)
        usage = self._provider.meter(raw)
        parsed = self._provider.parse(raw, call.request)
        price = self._prices.price_of(call.request.model)
        batch_price = self._prices.batch_price_of(call.request.model)
        cost = cost_usd(usage, price) if usage and price else None
        self.calls.append(
            WalkedCall(
                party=call.party,
                purpose=call.purpose,
                turn=call.turn,
                request=call.request,
                tokens_in=usage.tokens_in if usage else 0,
                tokens_out=usage.tokens_out if usage else 0,
                cost_usd=cost,
                ceiling_usd=ceiling_usd(call.request, price) if price else None,
                latency_s=raw.latency_s,
                address=call.address,
                batch_cost_usd=cost_usd(usage, batch_price) if usage and batch_price else None,
            )
        )
        settled = f.Settled(
            at=call.address,
            attempt=1,
            cost_usd=cost,
            usage=usage,
            text=text_hash(parsed.text),
            finish=parsed.finish,
            model=parsed.model,
        )
        return Answer(settled=settled, text=parsed.text)


async def walk(
    plan: Plan, condition: Condition, prices: PriceBook, *, quantile: float, draw: int = 0
) -> Walk:
    """One trial of this condition. All conditions draw the same chance, so only what they set can differ.

    The short walk stops where gates close; the long one goes through all of them.
    """
    spec = plan.specs.spec_of(condition)
    key = chance.derive(plan.study.key, "walk", draw)
    trial = Trial(id="walk", condition=condition, replicate=0, spec=spec, key=key)
    return await walk_trial(trial, plan.procedures.make(spec.procedure), prices, quantile=quantile)


async def walk_trial(trial: Trial, procedure: Procedure, prices: PriceBook, *, quantile: float) -> Walk:
    """One trial from beginning to end, with replies of this length."""
    clock = SystemClock()
    journal = MemoryJournal(clock=clock)
    path = _Footpath(rehearsing(length_quantile=quantile), prices)
    sitting = Sitting(
        trial=trial,
        record=Record(),
        journal=journal,
        door=path,
        clock=clock,
        limits=_WALK_LIMITS,
        time_limit=TimeLimit(_WALK_LIMITS.trial_timeout_s),
        mode="walk",
        opens_gates=quantile >= LONG,
    )
    stopped_at = ""
    try:
        ending = await run_trial(sitting, procedure)
    except (TrialrunError, KernelBug) as error:
        ending, stopped_at = None, str(error)
    match ending:
        case f.Waiting():
            stopped_at = ending.waiting_for
        case f.Failed() | f.TimedOut():
            stopped_at = ending.reason
        case _:
            pass
    await journal.commit()
    entries = [entry.fact for entry in await journal.facts_of(trial.id)]
    return Walk(
        calls=tuple(path.calls),
        trace=digest([call.request.fingerprint for call in path.calls] + _traces(entries)),
        has_acts=any(isinstance(fact, f.ActBegan) for fact in entries),
        stopped_at=stopped_at,
    )


def _traces(facts: Iterable[f.Fact]) -> list[object]:
    """What leaves for the outside besides requests: words, questions to people, deeds."""
    traces: list[object] = []
    for fact in facts:
        match fact:
            case f.Said():
                traces.append(["said", fact.party, fact.text, fact.audience])
            case f.Asked():
                traces.append(["asked", fact.party, fact.question, fact.options])
            case f.ActBegan():
                traces.append(["act", fact.name])
            case _:
                pass
    return traces


async def walk_all(plan: Plan, prices: PriceBook) -> list[Walked]:
    """Walk every condition, or, of very many, the first ones in the random order of the study.

    The first walk that fails ends it: a procedure that hangs takes the whole time limit of a walk each time.
    """
    walked: list[Walked] = []
    conditions = sample_of(plan, MOST_WALKED)
    for condition in conditions:
        short, long = [await _sound_walk(plan, condition, prices, quantile) for quantile in (SHORT, LONG)]
        walked.append(Walked(condition=condition, short=short, long=long))
    calls = sum(len(each.short.calls) + len(each.long.calls) for each in walked)
    for draw in range(1, -(-_DRAWS // max(1, len(conditions)))):
        if calls >= _ENOUGH_CALLS:
            break
        for at, each in enumerate(walked):
            pair = await _drawn(plan, each.condition, prices, draw)
            walked[at] = replace(each, others=(*each.others, *pair))
            calls += sum(len(walk.calls) for walks in pair for walk in walks)
    return walked


async def _drawn(
    plan: Plan, condition: Condition, prices: PriceBook, draw: int
) -> tuple[tuple[Walk, Walk], ...]:
    """Two more walks, with another draw of chance; none if they do not come to an end."""
    short, long = [
        await walk(plan, condition, prices, quantile=quantile, draw=draw) for quantile in (SHORT, LONG)
    ]
    return () if short.stopped_at or long.stopped_at else ((short, long),)


async def _sound_walk(plan: Plan, condition: Condition, prices: PriceBook, quantile: float) -> Walk:
    """A procedure that fails with rehearsed replies would fail with paid ones."""
    walked = await walk(plan, condition, prices, quantile=quantile)
    if walked.stopped_at and not walked.stopped_at.startswith(("act:", "human:")):
        what = (
            f"a trial of ({condition.title}) fails already in a walk without any model: {walked.stopped_at}"
        )
        fix = "correct the procedure, its settings or its prompts"
        raise StudyMistakes((Mistake(what=what, file=plan.file, fix=fix),))
    return walked


def sample_of(plan: Plan, most: int) -> list[Condition]:
    """Conditions in file order if there are few, else so many picked by the study's own chance."""
    if plan.design.size <= most:
        return in_file_order(plan.study, plan.design)
    picked: list[Condition] = []
    for index in chance.permuted(plan.design.size, chance.derive(plan.study.key, "walks")):
        condition = plan.design.condition(index)
        if condition is not None:
            picked.append(condition)
        if len(picked) == most:
            break
    return picked


def refuse_dead_factors(plan: Plan, walked: Sequence[Walked]) -> None:
    """Two conditions that send the same to everybody are one condition twice: an error, before anything is spent."""
    seen: dict[str, Condition] = {}
    mistakes: dict[tuple[str, ...], Mistake] = {}
    for each in walked:
        # The long walk: behind a gate that closed in the short one, a factor would look dead.
        if each.long.has_acts or each.long.stopped_at:
            continue
        twin = seen.setdefault(each.long.trace, each.condition)
        if twin is not each.condition:
            differing = tuple(
                name
                for name, level in twin.levels.items()
                if level.label != each.condition.levels[name].label
            )
            # One pair of conditions shows it; a factor beside it would only repeat it at each of its levels.
            mistakes.setdefault(differing, _dead(plan, differing, twin, each.condition))
    if mistakes:
        raise StudyMistakes(tuple(mistakes.values()))


def _dead(plan: Plan, differing: Sequence[str], one: Condition, other: Condition) -> Mistake:
    factors = " and ".join(f"`{name}`" for name in differing)
    paths = sorted({path for name in differing for path, _ in one.levels[name].sets})
    values = ", ".join(f"`{path}`" for path in paths)
    source = read_source(plan.study.source, file=plan.file)
    line = source.line_of(("factors", differing[0]), key=True)
    return Mistake(
        what=f"the conditions ({one.title}) and ({other.title}) send the same requests: {factors} changes nothing",
        file=plan.file,
        line=line,
        source=source.text_of(line),
        fix=f"make {values} reach a prompt or a setting that the procedure uses, or remove {factors}",
    )
