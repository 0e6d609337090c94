"""Between the file and the nouns: writes the resolved document, and reads a Study out of one.

A resolved document is itself a study file: texts are in it, factors are written level by level, defaults are filled
in. A Study is always read from its resolved document, so what the archive gives back is what ran.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from trialrun.core.paths import as_map
from trialrun.core.reading.arrangement import Arrangement
from trialrun.core.reading.document import (
    BatchEntry,
    BatchRateEntry,
    DesignEntry,
    LimitsEntry,
    PriceEntry,
    StudyFile,
    TokenRates,
    plain,
)
from trialrun.core.reading.labels import label_of
from trialrun.core.reading.notices import notice_of
from trialrun.core.study import Batching, Budget, Factor, Level, Limits, Price, RateLimit, Rehearsal, Study

Data = Mapping[str, object]


def resolved(
    entry: StudyFile,
    given: Data,
    factors: Sequence[Factor],
    arrangement: Arrangement,
    sources: Mapping[str, str],
) -> dict[str, object]:
    """The study file with nothing left to look up."""
    document: dict[str, Any] = {"study": entry.study, **plain(entry)}
    document["replicates"] = entry.replicates or 1
    document["seed"] = entry.seed or 0
    document["measures"] = entry.measures if entry.measures is not None else list(entry.judges or {})
    if given.get("settings"):
        document["settings"] = given["settings"]
    document.pop("factors", None)
    document.pop("design", None)
    if factors:
        document["factors"] = {factor.name: _factor_form(factor) for factor in factors}
        document["design"] = _design_form(factors, arrangement)
    kept = dict(entry.sources or {}) | dict(sources)
    document.pop("sources", None)
    if kept:
        document["sources"] = kept
    return {key: _in_order(value) for key, value in document.items()}


def _in_order(value: object) -> object:
    """The value with the keys of its maps in order: a study read back from an archive iterates like the first one."""
    if isinstance(value, list):
        return [_in_order(item) for item in cast("list[object]", value)]
    known = as_map(value)
    return value if known is None else {key: _in_order(known[key]) for key in sorted(known)}


def _factor_form(factor: Factor) -> dict[str, object]:
    shown = {level.label: level.value for level in factor.levels if level.value != level.label}
    levels = {level.label: dict(level.sets) for level in factor.levels}
    return {"levels": levels, **({"values": shown} if shown else {})}


def _design_form(factors: Sequence[Factor], arrangement: Arrangement) -> dict[str, object]:
    form: dict[str, object] = {
        "order": [[factor.name, *(level.label for level in factor.levels)] for factor in factors],
        "zip": [list(group) for group in arrangement.zips],
        "list": [dict(labels) for labels in arrangement.listed],
        "include": [dict(labels) for labels in arrangement.included],
        "exclude": [dict(labels) for labels in arrangement.excluded],
    }
    return {key: value for key, value in form.items() if value}


def noun_of(entry: StudyFile, document: Data, *, source: str, home: str) -> Study:
    """The study of a resolved document."""
    design = entry.design or DesignEntry()  # pyright: ignore[reportCallIssue]  # every key has a default
    rehearsal = entry.rehearsal
    budget = entry.budget_usd
    return Study(
        name=entry.study,
        question=entry.question or "",
        document=document,
        factors=_factors(entry.factors or {}, design.order or []),
        zips=tuple(tuple(group) for group in design.zip or []),
        listed=_labels(design.list),
        included=_labels(design.include),
        excluded=_labels(design.exclude),
        replicates=entry.replicates or 1,
        seed=entry.seed or 0,
        budget=Budget(study_usd=budget.study, condition_usd=budget.condition, trial_usd=budget.trial)
        if budget
        else Budget(),
        limits=_limits(entry.limits),
        prices=MappingProxyType({name: _price(price) for name, price in (entry.prices or {}).items()}),
        rehearsal=Rehearsal(**{key: value for key, value in dict(rehearsal).items() if value is not None})
        if rehearsal
        else Rehearsal(),
        lane=entry.lane,
        batching=_batching(entry.batch),
        notice=notice_of(document),
        source=source,
        home=home,
    )


def _price(entry: PriceEntry) -> Price:
    return replace(_rates(entry), batch=_rates(entry.batch, source="study, batch") if entry.batch else None)


def _rates(entry: TokenRates, source: str = "study") -> Price:
    """The price of these rates, with its tiers in rising order."""
    given = entry.tiers or [] if isinstance(entry, BatchRateEntry) else []
    tiers = ((tier.above, _rates(tier, source)) for tier in sorted(given, key=lambda tier: tier.above))
    return Price(
        input=entry.input,
        output=entry.output,
        cached_input=entry.cached_input,
        cache_write=entry.cache_write,
        reasoning=entry.reasoning,
        source=source,
        tiers=tuple(tiers),
    )


def _batching(entry: BatchEntry | None) -> Batching:
    if entry is None:
        return Batching()
    given: dict[str, Any] = {name: value for name, value in dict(entry).items() if value is not None}
    deadline_h = given.pop("deadline_h", None)
    return Batching(**given, deadline_s=None if deadline_h is None else 3600 * deadline_h)


def _factors(forms: Mapping[str, Any], order: Sequence[Sequence[str]]) -> tuple[Factor, ...]:
    rows = {row[0]: row[1:] for row in order if row}
    names = dict.fromkeys([*(name for name in rows if name in forms), *forms])
    return tuple(_factor(name, forms[name], rows.get(name, ())) for name in names)


def _factor(name: str, form: Mapping[str, Any], order: Sequence[str]) -> Factor:
    levels = cast("dict[str, dict[str, object]]", form["levels"])
    values = cast("Data", form.get("values", {}))
    labels = dict.fromkeys([*(label for label in order if label in levels), *levels])
    return Factor(
        name=name,
        levels=tuple(
            Level(label=label, value=values.get(label, label), sets=tuple(sorted(levels[label].items())))
            for label in labels
        ),
    )


def _labels(rows: Sequence[Mapping[str, object]] | None) -> tuple[Mapping[str, str], ...]:
    return tuple({name: label_of(value) for name, value in row.items()} for row in rows or [])


def _limits(entry: LimitsEntry | None) -> Limits:
    if entry is None:
        return Limits()
    given: dict[str, Any] = {name: getattr(entry, name) for name in entry.model_fields_set if name != "rates"}
    always = {"turn_timeout_s", "trial_timeout_s"}  # null means none there, and the default elsewhere
    rates = tuple(RateLimit(model=model, **dict(rate)) for model, rate in (entry.rates or {}).items())
    kept: dict[str, Any] = {
        name: value for name, value in given.items() if value is not None or name in always
    }
    return Limits(**kept, rates=rates)
