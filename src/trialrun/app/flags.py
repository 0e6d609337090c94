"""Flags of a command as overrides of the study file. Flag before file, file before default."""

from collections.abc import Mapping
from pathlib import Path
from typing import cast

from trialrun.app.studies import document_of
from trialrun.core.errors import UsageError
from trialrun.core.reading.parse import parse_override


def overrides(
    study: Path | Mapping[str, object],
    *,
    sets: tuple[str, ...] = (),
    replicates: int | None = None,
    budget: str | None = None,
    seed: int | None = None,
    open_trials: int | None = None,
    rehearsal: Mapping[str, float | None] | None = None,
    batch: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Dotted path → value, for this study."""
    values: dict[str, object] = dict(parse_override(argument) for argument in sets)
    given: dict[str, object] = {
        "replicates": replicates,
        "seed": seed,
        "limits.open_trials": open_trials,
        **{f"rehearsal.{key}": value for key, value in (rehearsal or {}).items()},
        **{f"batch.{key}": value for key, value in (batch or {}).items()},
    }
    values |= {dotted: value for dotted, value in given.items() if value is not None}
    if budget is not None:
        values[_budget_path(study)] = _amount(budget)
    return values


def _budget_path(study: Path | Mapping[str, object]) -> str:
    """Where the study has the cap of the whole: caps of conditions and trials beside it stay."""
    data: object = study
    if isinstance(study, Path):
        data = document_of(study)
    has_several = isinstance(data, Mapping) and isinstance(
        cast("Mapping[str, object]", data).get("budget_usd"), Mapping
    )
    return "budget_usd.study" if has_several else "budget_usd"


def _amount(text: str) -> object:
    _, value = parse_override(f"budget_usd={text.removeprefix('$')}")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"`--budget {text}` is no amount", fix="write USD, such as `--budget 2.50`")
    return value
