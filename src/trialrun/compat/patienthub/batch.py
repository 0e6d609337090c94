"""`BatchConfig`, `run_batch` and `aggregate_results`: a batch from Python, as its page describes it.

A batch is a study in its output folder: the same call continues it, and every command of Trialrun takes the folder.
Without a seed one is drawn, and kept in the folder, so that a batch that was not meant to be repeated still can be.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from trialrun.app import foreign, studies
from trialrun.app.api import carry_out
from trialrun.app.environment import read_env
from trialrun.app.findings.exporting import lane_of
from trialrun.app.running import Options
from trialrun.app.studies import Lane, Plan
from trialrun.compat.patienthub.batch_file import KEYS, read_batch
from trialrun.compat.patienthub.format import NAME as FORMAT
from trialrun.compat.patienthub.format import OFFER
from trialrun.compat.patienthub.rows import Row, places_of, rows_of
from trialrun.compat.patienthub.summary import aggregate_results
from trialrun.compat.patienthub.translation import OUTPUTS, document_of
from trialrun.core.reading.source import read_source
from trialrun.core.reading.writing import write_yaml
from trialrun.store.archive import Archive

__all__ = ["BatchConfig", "aggregate_results", "plan_of", "results_of", "run_batch"]

_SEEDS = 2**31


def unused_folder(now: datetime | None = None) -> Path:
    """`outputs/batch/2026-01-19_14-30-00`; a second one in the same second is `…-2`."""
    stamp = (now or datetime.now().astimezone()).strftime("%Y-%m-%d_%H-%M-%S")
    folder, number = OUTPUTS / stamp, 2
    while folder.exists() or folder.with_name(f"{folder.name}.rehearsal").exists():
        folder, number = OUTPUTS / f"{stamp}-{number}", number + 1
    return folder


@dataclass(kw_only=True)
class BatchConfig:
    """What to run; the keys of a batch file. What is not given has the documented default."""

    clients: list[str] = field(default_factory=lambda: ["patientPsi"])
    therapists: list[str] = field(default_factory=lambda: ["CBT"])
    num_runs: int = 5
    max_turns: int = 20
    max_workers: int = 4
    output_dir: str | Path = field(default_factory=unused_folder)
    seed: int | None = None
    model_type: str = "OPENAI"
    model_name: str = "gpt-4o"
    temperature: float | None = 0.7
    characters: dict[str, Any] = field(default_factory=dict[str, Any])
    budget_usd: float | str | None = None
    prices: dict[str, Any] = field(default_factory=dict[str, Any])

    def given(self) -> dict[str, object]:
        """As the keys of a batch file."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name in KEYS}
        return {key: str(value) if isinstance(value, Path) else value for key, value in found.items()}


def run_batch(config: BatchConfig, *, lane: Lane = "live", progress: bool = True) -> list[Row]:
    """Run what is unfinished of the batch. A row for every run: its session, the documented row of an error, or that it
    is `unfinished`. A run that fails does not stop the others."""
    foreign.offer(OFFER)
    read_env(None)
    plan = plan_of(config.given(), lane=lane)
    carry_out(plan, Options(), progress=progress)
    return results_of(plan)


def results_of(plan: Plan) -> list[Row]:
    """A row for each run of the batch, from its journal."""
    with Archive(plan.folder) as archive:
        states = {state.id: state for state in archive.trials()}
        return list(rows_of(archive, places_of(plan), states, lane_of(archive)))


def plan_of(
    flags: Mapping[str, object], *, lane: Lane | None, text: str = "", file: str = "the batch"
) -> Plan:
    """The study of a batch that a file and flags describe together; its folder is where `output_dir` says."""
    batch, source, given = read_batch(text, file=file, flags=flags)
    base = Path(batch.entry.output_dir or unused_folder())
    folder = studies.in_lane(base, lane or "live")
    if batch.entry.seed is None:
        given = {**given, "seed": _kept_seed(folder)}
        batch, _, _ = read_batch(write_yaml(given), file=file)
    # The archive keeps what flags and file said together: the folder alone is the whole batch.
    whole = {key: given[key] for key in KEYS if key in given and given[key] not in ({}, None)}
    whole |= {"clients": list(batch.clients), "therapists": list(batch.therapists)}
    whole.pop("output_dir", None)
    read = read_source(write_yaml(_plain(whole)), file=source.file)
    made = type(read)(file=read.file, text=read.text, data=document_of(batch), places={}, mistakes=())
    return studies.plan_of(
        made, file=file, home=Path(), lane=lane, folder=folder, overrides={}, live_folder=base, form=FORMAT
    )


def _plain(given: Mapping[str, object]) -> dict[str, object]:
    order = {key: place for place, key in enumerate(KEYS)}
    return {key: given[key] for key in sorted(given, key=lambda key: order[key])}


def _kept_seed(folder: Path) -> int:
    """The seed that this folder's batch began with, or a new one."""
    try:
        text = (folder / studies.GIVEN).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return secrets.randbelow(_SEEDS)
    found = read_source(text, file="").data
    seed = found.get("seed") if isinstance(found, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return seed if isinstance(seed, int) else secrets.randbelow(_SEEDS)
