"""The batch file of Scenario Lab → Batch, with every mistake of the file at once, each with its line and its fix."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from pydantic import ConfigDict, Field

from trialrun.core.errors import StudyMistakes
from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.core.reading.document import Entry, Money, Name
from trialrun.core.reading.file_kind import FileKind
from trialrun.core.reading.labels import label_of
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.objection import Objection
from trialrun.core.reading.source import Source

Data = Mapping[str, object]
Kind = Literal["actor_model", "scenario_parameter", "path"]
SUBJECT: Mapping[Kind, str] = {"actor_model": "actor", "scenario_parameter": "parameter", "path": "path"}
"""Which key says what a variation of this kind varies."""
DEFAULT_OUTPUT = "experiments/batch-run"
_LONGEST_NAME = 40


class VariationEntry(Entry):
    """One thing that is varied."""

    type: Kind = Field(description="actor_model, scenario_parameter or path.")
    actor: str | None = Field(None, min_length=1, description="Short name of the actor whose model varies.")
    parameter: str | None = Field(None, min_length=1, description="Key of scenario.yaml that varies.")
    path: str | None = Field(None, min_length=1, description="Dotted path that varies.")
    name: Name | None = Field(
        None, description="Name of the factor; the actor, the key, or the end of the path."
    )
    values: list[Any] = Field(min_length=1, description="The values that it takes.")


class BatchFile(Entry):
    """A batch: a scenario, what varies, how often each variation runs, and what it may cost."""

    model_config = ConfigDict(title="Scenario Lab batch", extra="forbid", strict=True, frozen=True)

    experiment_name: str = Field(min_length=1, description="Name of the experiment.")
    description: str | None = Field(None, description="What it is about.")
    base_scenario: str = Field(min_length=1, description="Path of the scenario's folder.")
    runs_per_variation: int | None = Field(None, ge=1, le=999_999, description="Runs of each variation; 1.")
    max_parallel: int | None = Field(None, ge=1, description="Runs side by side; 1.")
    timeout_per_run: int | float | None = Field(None, gt=0, description="Seconds for one run; 1800.")
    budget_limit: Money | None = Field(None, description="What the batch may cost, in USD.")
    cost_per_run_limit: Money | None = Field(None, description="What one run may cost, in USD.")
    variations: list[VariationEntry] | None = Field(None, description="What is varied; nothing.")
    output_dir: str | None = Field(None, min_length=1, description="Where results go.")
    save_individual_runs: bool | None = Field(None, description="Whether each run gets a folder; true.")
    aggregate_metrics: bool | None = Field(None, description="Whether the analysis is written; true.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Variation:
    """One thing that is varied, and its values in the order of the file."""

    kind: Kind
    subject: str
    """The actor, the key of scenario.yaml, or the path."""
    name: str
    """The name of its factor."""
    values: tuple[object, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """A batch file with its defaults filled in."""

    experiment_name: str
    description: str
    base_scenario: str
    runs_per_variation: int
    max_parallel: int
    timeout_per_run: float
    budget_limit: Decimal | None
    cost_per_run_limit: Decimal | None
    variations: tuple[Variation, ...]
    output_dir: str
    save_individual_runs: bool
    aggregate_metrics: bool


def read_batch(text: str, *, file: str) -> tuple[Batch, Source, Mistakes]:
    """The batch that a file describes. What its values mean for the scenario, the caller adds to the mistakes."""
    entry, source, mistakes = BATCH.read(
        text,
        file=file,
        prepare=lambda written, _: {**written, "variations": _listed(written.get("variations"))},
    )
    return _batch_of(entry), source, mistakes


def archived_batch(text: str) -> Batch | None:
    """The batch that a results folder keeps; None if nobody can read it any more."""
    try:
        return read_batch(text, file="batch-config.yaml")[0]
    except StudyMistakes:
        return None


def _listed(variations: object) -> object:
    """The later spelling, a map of actors to models, as the list that it stands for."""
    given = as_map(variations)
    models = (
        as_map(given.get("actor_models")) if given is not None and set(given) == {"actor_models"} else None
    )
    if models is None:
        return variations
    return [{"type": "actor_model", "actor": actor, "values": values} for actor, values in models.items()]


def _contradictions(batch: BatchFile) -> Iterator[Objection]:
    names: dict[str, int] = {}
    for place, each in enumerate(batch.variations or []):
        at: Path = ("variations", place)
        wanted = SUBJECT[each.type]
        if getattr(each, wanted) is None:
            yield Objection(at, f"a variation of type `{each.type}` needs `{wanted}`", f"add `{wanted}: ...`")
            continue
        for key in SUBJECT.values():
            if key != wanted and getattr(each, key) is not None:
                what = f"a variation of type `{each.type}` has no `{key}`"
                yield Objection((*at, key), what, f"it is about its `{wanted}`; remove `{key}`", at_key=True)
        yield from _repeated(each, at)
        name = name_of(each)
        if name in names:
            what = f"two variations are called `{name}`"
            fix = f"the first is number {names[name] + 1}; put their values together, or give one a `name`"
            yield Objection(at, what, fix)
        names.setdefault(name, place)


BATCH = FileKind(
    model=BatchFile,
    layout={(): BatchFile, ("variations", "*"): VariationEntry},
    whole="a batch file",
    noun="batch",
    begin="`experiment_name: ...` and `base_scenario: ...`",
    contradictions=_contradictions,
)


def _repeated(variation: VariationEntry, at: Path) -> Iterator[Objection]:
    seen: set[str] = set()
    for place, value in enumerate(variation.values):
        label = label_of(value)
        if label in seen:
            what = f"the value `{label}` stands twice in one variation"
            yield Objection((*at, "values", place), what, "remove one; `runs_per_variation` repeats")
        seen.add(label)


def name_of(variation: VariationEntry) -> str:
    """The name of the variation's factor."""
    if variation.name is not None:
        return variation.name
    subject = str(getattr(variation, SUBJECT[variation.type]))
    last = subject.rpartition(".")[2] if variation.type == "path" else subject
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in last).strip("-_")
    return (plain if plain[:1].isalpha() else f"factor-{plain}".strip("-"))[:_LONGEST_NAME]


def _batch_of(entry: BatchFile) -> Batch:
    variations = tuple(
        Variation(
            kind=each.type,
            subject=str(getattr(each, SUBJECT[each.type])),
            name=name_of(each),
            values=tuple(each.values),
        )
        for each in entry.variations or []
    )
    return Batch(
        experiment_name=entry.experiment_name,
        description=entry.description or "",
        base_scenario=entry.base_scenario,
        runs_per_variation=entry.runs_per_variation or 1,
        max_parallel=entry.max_parallel or 1,
        timeout_per_run=float(entry.timeout_per_run or 1800),
        budget_limit=entry.budget_limit,
        cost_per_run_limit=entry.cost_per_run_limit,
        variations=variations,
        output_dir=entry.output_dir or DEFAULT_OUTPUT,
        save_individual_runs=entry.save_individual_runs is not False,
        aggregate_metrics=entry.aggregate_metrics is not False,
    )


def no_actor(variation: Variation, actors: list[str]) -> tuple[str, str]:
    """What is wrong with a variation of an actor that does not take part, and its fix."""
    return f"nobody in the scenario is called `{variation.subject}`", pick(variation.subject, actors)
