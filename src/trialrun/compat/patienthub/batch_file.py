"""The batch file of PatientHub → Batch: flag before file before default, with every mistake at once and its place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import ConfigDict, Field

from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.core.reading.document import Entry, Layout, Money
from trialrun.core.reading.explain import objections
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.objection import Objection
from trialrun.core.reading.source import Source, read_source
from trialrun.procedures.therapy.actors import CLIENT, THERAPIST
from trialrun.procedures.therapy.registry import METHODS
from trialrun.procedures.therapy.shelf import SHELF

FIRST: Mapping[str, str] = {
    "cognitive": "mara-exam",
    "motivation": "anton",
    "depression": "margit-moderate",
    "principled": "olena",
    "drinking": "walter",
}
"""Whom a client of each kind plays, unless `characters` says otherwise."""
_LISTS = ("clients", "therapists")


class BatchFile(Entry):
    """Clients, therapists, how often each pair meets, and what stands behind both."""

    model_config = ConfigDict(title="PatientHub batch", extra="forbid", strict=True, frozen=True)

    clients: list[str] = Field(["patientPsi"], min_length=1, description="Client types; patientPsi.")
    therapists: list[str] = Field(["CBT"], min_length=1, description="Therapist types; CBT.")
    num_runs: int = Field(5, ge=1, le=999_999, description="Runs per combination; 5.")
    max_turns: int = Field(20, ge=1, description="Most turns of a session; 20.")
    max_workers: int = Field(4, ge=1, description="Sessions side by side; 4.")
    output_dir: str | None = Field(None, min_length=1, description="Where results go.")
    seed: int | None = Field(None, description="Root of all chance.")
    model_type: str = Field("OPENAI", min_length=1, description="Provider, as in <TYPE>_API_KEY; OPENAI.")
    model_name: str = Field("gpt-4o", min_length=1, description="Model of both sides; gpt-4o.")
    temperature: int | float | None = Field(0.7, ge=0, le=2, description="Of both sides; 0.7.")
    # What the original did not have.
    characters: dict[str, Any] = Field({}, description="Client type → whom it plays: one name, or a list.")
    budget_usd: Money | None = Field(None, description="What the batch may cost, in USD.")
    prices: dict[str, Any] = Field({}, description="Prices of models, as in a study file.")


KEYS = tuple(BatchFile.model_fields)
LAYOUT: Layout = {(): BatchFile}


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What is to run, with defaults filled in."""

    clients: Mapping[str, tuple[str, ...]]
    """Client type → the characters that it plays; empty for a type that plays none."""
    therapists: tuple[str, ...]
    entry: BatchFile


def read_batch(
    text: str, *, file: str, flags: Mapping[str, object] | None = None
) -> tuple[Batch, Source, Mapping[str, object]]:
    """The batch that a file and flags describe together, and what was given for it. Raises StudyMistakes."""
    source = read_source(text, file=file)
    flags = {key: value for key, value in (flags or {}).items() if value is not None}
    mistakes = Mistakes(source, {(key,): f"--{key}" for key in flags})
    if as_map(source.data) is None and source.data is not None and not source.mistakes:
        mistakes.add("this is no batch", (), "write `clients: [patientPsi]` and `therapists: [CBT]`")
    mistakes.raise_if_any()
    given = {key: value for key, value in (as_map(source.data) or {}).items() if value is not None}
    given |= flags
    for key in _LISTS:
        if isinstance(given.get(key), str):
            given[key] = [name.strip() for name in str(given[key]).split(",") if name.strip()]
    entry, found = objections(BatchFile, given, layout=LAYOUT, whole="a batch file")
    if entry is not None:
        found = list(_contradictions(entry))
    for each in found:
        mistakes.add(each.what, each.path, each.fix, key=each.at_key)
    mistakes.raise_if_any()
    return _batch_of(cast("BatchFile", entry)), source, given


def _contradictions(batch: BatchFile) -> Iterator[Objection]:
    for key, role, names in (
        ("clients", CLIENT, batch.clients),
        ("therapists", THERAPIST, batch.therapists),
    ):
        for place, name in enumerate(names):
            at: Path = (key, place)
            if name not in METHODS[role]:
                yield Objection(at, f"there is no {role} `{name}`", pick(name, METHODS[role]))
            elif METHODS[role][name].facts.needs == "script":
                fix = "write a study file, where a party can have a `script`"
                yield Objection(at, f"a batch has no lines for the {role} `{name}`", fix)
            elif name in names[:place]:
                fix = "remove one; `num_runs` says how often each combination is repeated"
                yield Objection(at, f"the {role} `{name}` stands twice", fix)
    yield from _casting(batch)


def _casting(batch: BatchFile) -> Iterator[Objection]:
    """What is wrong with `characters`."""
    for client, names in batch.characters.items():
        at: Path = ("characters", client)
        if client not in batch.clients:
            yield Objection(
                at, f"`{client}` is none of the clients", pick(client, batch.clients), at_key=True
            )
            continue
        known = SHELF.of_kind(METHODS[CLIENT][client].facts.character) if client in METHODS[CLIENT] else []
        listed = _listed(names)
        for name in listed:
            if name not in known:
                yield Objection(at, f"`{client}` cannot play `{name}`", pick(str(name), known))
            elif listed.count(name) > 1:
                yield Objection(at, f"`{name}` stands twice", "remove one; `num_runs` repeats")
        if not listed:
            yield Objection(at, f"`{client}` plays nobody", "name a character, or remove the key")


def _listed(names: object) -> list[object]:
    return list(cast("list[object]", names)) if isinstance(names, list) else [names]


def _batch_of(entry: BatchFile) -> Batch:
    clients: dict[str, tuple[str, ...]] = {}
    for name in entry.clients:
        kind = METHODS[CLIENT][name].facts.character
        usual = [FIRST[kind]] if kind else []
        clients[name] = tuple(str(each) for each in _listed(entry.characters.get(name, usual)))
    return Batch(clients=clients, therapists=tuple(entry.therapists), entry=entry)
