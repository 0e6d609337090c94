"""Reads `metrics.yaml`: a map of metrics with an `extraction_method`, or a list of them with an `extraction`."""

import re
from collections.abc import Mapping
from typing import cast

from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.procedures.scenario import files
from trialrun.procedures.scenario.notebook import Notebook
from trialrun.procedures.scenario.spelling import METHODS, SAME, TYPES, renamed
from trialrun.procedures.scenario.world import Metric

Data = Mapping[str, object]


def metrics_of(notebook: Notebook, data: object, actors: tuple[str, ...]) -> tuple[Metric, ...]:
    """The metrics of `metrics.yaml`, in either of its documented shapes."""
    given = notebook.map_of(data, ("metrics",))
    for key in given:
        if key not in ("metrics", "scenario_name", "export_format", "auto_export", "export_path"):
            what = f"metrics.yaml has no key `{key}`"
            notebook.wrong(("metrics", key), what, pick(key, ("metrics", "scenario_name")), at_key=True)
    listed = given.get("metrics")
    entries: list[tuple[str | int, Data]] = []
    at: Path = ("metrics", "metrics")
    match listed:
        case Mapping():
            for name, metric in cast("Data", listed).items():
                found = notebook.map_of(metric if metric is not None else {}, (*at, name))
                entries.append((name, {"name": name, **found}))
        case list():
            for i, each in enumerate(cast("list[object]", listed)):
                entries.append((i, notebook.map_of(each, (*at, i))))
        case None:
            pass
        case _:
            notebook.wrong(("metrics", "metrics"), "`metrics` must be a map or a list", "name each metric")
    metrics: dict[str, Metric] = {}
    for place, entry in entries:
        metric = _metric(notebook, entry, (*at, place), actors) if entry else None
        if metric is None:
            continue
        if metric.name in metrics:
            what = f"there are two metrics `{metric.name}`"
            notebook.wrong((*at, place), what, "rename one, or keep one")
        metrics.setdefault(metric.name, metric)
    return tuple(metrics.values())


def _metric(notebook: Notebook, data: Data, at: Path, actors: tuple[str, ...]) -> Metric | None:
    flat = {key: value for key, value in data.items() if key != "extraction"}
    for key, value in (as_map(data.get("extraction")) or {}).items():
        flat["method" if key == "type" else key] = value
    flat = renamed(flat, SAME["metric"])
    flat["type"] = TYPES.get(str(flat.get("type", "number")).lower(), flat.get("type", "number"))
    flat["method"] = METHODS.get(str(flat.get("method")), flat.get("method"))
    entry = notebook.entry(files.MetricEntry, flat, at, {})
    if entry is None:
        return None
    _check(notebook, entry, at, actors)
    own = (entry.actor,) if entry.actor else actors if entry.actor_specific else ()
    low, high = (float(entry.range[0]), float(entry.range[1])) if entry.range else (None, None)
    return Metric(
        name=entry.name,
        kind=entry.type,
        method=entry.method,
        description=entry.description,
        unit=entry.unit,
        pattern=entry.pattern,
        keywords=tuple(entry.keywords),
        scoring=entry.scoring,
        question=entry.prompt,
        model=entry.model or "",
        actors=tuple(name for name in own if name in actors),
        is_per_actor=entry.actor_specific and not entry.actor,
        low=low,
        high=high,
        categories=tuple(entry.categories),
        warning=entry.warning_threshold,
        critical=entry.critical_threshold,
        better=entry.direction,
    )


def _check(notebook: Notebook, entry: files.MetricEntry, at: Path, actors: tuple[str, ...]) -> None:
    if entry.method == "pattern":
        try:
            re.compile(entry.pattern)
        except re.error as error:
            notebook.wrong((*at, "pattern"), f"the pattern of `{entry.name}` is none: {error}", "mend it")
        if not entry.pattern:
            notebook.wrong(at, f"the metric `{entry.name}` has no pattern", "add `pattern: ...`")
    if entry.method == "keyword" and not entry.keywords:
        notebook.wrong(at, f"the metric `{entry.name}` has no keywords", "add `keywords: [...]`")
    if entry.range and entry.range[1] < entry.range[0]:
        what = f"the range of `{entry.name}` ends before it begins"
        notebook.wrong((*at, "range"), what, f"write [{entry.range[1]}, {entry.range[0]}]")
    if entry.type == "label" and not entry.categories:
        notebook.wrong(at, f"the metric `{entry.name}` has no categories", "add `categories: [...]`")
    if entry.actor is not None and entry.actor not in actors:
        what = f"the metric `{entry.name}` is about `{entry.actor}`, who does not take part"
        notebook.wrong((*at, "actor"), what, pick(entry.actor, actors))
    notebook.check_model(entry.model, (*at, "model"))
