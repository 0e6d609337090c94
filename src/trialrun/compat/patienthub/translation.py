"""A batch as an ordinary study: client and therapist are factors, runs are replicates, workers are open trials."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from trialrun.app.foreign import Translation
from trialrun.compat.patienthub.batch_file import Batch, read_batch
from trialrun.core.paths import Path as Place
from trialrun.core.reading.source import Place as Lines
from trialrun.core.reading.source import Source
from trialrun.procedures.therapy.actors import CLIENT, THERAPIST
from trialrun.procedures.therapy.registry import METHODS

NAME = "therapy-batch"
OUTPUTS = Path("outputs/batch")
_PARTED = "/"
_USER = "user"


def translated(file: Path, text: str) -> Translation:
    """The study that a batch file stands for. Raises StudyMistakes."""
    batch, source, _ = read_batch(text, file=str(file))
    home = file.resolve().parent
    return Translation(
        document=document_of(batch),
        home=home,
        folder=home / (batch.entry.output_dir or OUTPUTS / file.stem),
        text=text,
        places=dict(_places(source)),
    )


def document_of(batch: Batch) -> dict[str, object]:
    """The study of a batch."""
    entry = batch.entry
    model = f"{entry.model_type.lower().replace('_', '-')}/{entry.model_name}"
    party: dict[str, object] = {"model": model}
    if entry.temperature is not None:
        party["temperature"] = entry.temperature
    document: dict[str, object] = {
        "study": NAME,
        "procedure": "therapy",
        "parties": {
            CLIENT: _base(CLIENT, list(batch.clients), party),
            THERAPIST: _base(THERAPIST, batch.therapists, party),
        },
        "factors": {
            CLIENT: {"levels": dict(_client_levels(batch))},
            THERAPIST: {"levels": {name: _as(THERAPIST, name) for name in batch.therapists}},
        },
        "replicates": entry.num_runs,
        "settings": {"max_turns": entry.max_turns},
        "measures": [f"{THERAPIST}.words", f"{CLIENT}.words"],
        "limits": {"open_trials": entry.max_workers},
    }
    if entry.seed is not None:
        document["seed"] = entry.seed
    if entry.budget_usd is not None:
        document["budget_usd"] = str(entry.budget_usd)
    if entry.prices:
        document["prices"] = entry.prices
    return document


def client_of(label: str) -> str:
    """The client type of a level: `patientPsi/tomasz-dinner` is a patientPsi."""
    return label.partition(_PARTED)[0]


def _client_levels(batch: Batch) -> Iterator[tuple[str, dict[str, object]]]:
    for client, characters in batch.clients.items():
        for character in characters or ("",):
            level = _as(CLIENT, client)
            if character:
                level[f"parties.{CLIENT}.character"] = character
            yield client if len(characters) < 2 else f"{client}{_PARTED}{character}", level


def _base(role: str, methods: Sequence[str], party: dict[str, object]) -> dict[str, object]:
    """What the levels of a role change. Where none of them asks a model, nobody wants its key."""
    asking = [method for method in methods if METHODS[role][method].facts.needs == "model"]
    return party if asking else _alone(methods[0])


def _as(role: str, method: str) -> dict[str, object]:
    if METHODS[role][method].facts.needs == "model":
        return {f"parties.{role}.method": method}
    return {f"parties.{role}": _alone(method)}


def _alone(method: str) -> dict[str, object]:
    return {"human": True} if method == _USER else {"method": method}


def _places(source: Source) -> Iterator[tuple[Place, Lines]]:
    """Which line of the batch file says what stands where in the study."""
    same: list[tuple[Place, Place]] = [
        (("factors", CLIENT), ("clients",)),
        (("factors", THERAPIST), ("therapists",)),
        (("replicates",), ("num_runs",)),
        (("settings", "max_turns"), ("max_turns",)),
        (("limits", "open_trials"), ("max_workers",)),
        (("seed",), ("seed",)),
        (("budget_usd",), ("budget_usd",)),
        (("prices",), ("prices",)),
        *((("parties", role, "model"), ("model_name",)) for role in (CLIENT, THERAPIST)),
        *((("parties", role, "temperature"), ("temperature",)) for role in (CLIENT, THERAPIST)),
    ]
    for ours, theirs in same:
        if theirs in source.places:
            yield ours, source.places[theirs]
