"""What a study of questions under pressure shows, and how good its judge is: read from the study's folder.

The numbers are made in `procedures.questions`; here they are gathered, and written as text or as plain data.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from trialrun.app.findings.tables import declared_study
from trialrun.core.design import Design
from trialrun.core.errors import UsageError
from trialrun.core.paths import as_map
from trialrun.core.study import Study
from trialrun.procedures.questions.analysis import FIELDS, Group, Judged, Row, analyse
from trialrun.procedures.questions.batch_analysis import batch_analysis
from trialrun.procedures.questions.calibration import LABELS, Calibration, Rating, calibrate
from trialrun.stats.intervals import Estimate
from trialrun.store.archive import Archive

_REHEARSED = "REHEARSAL: made up by a built-in model, no results of a real one"


@dataclass(frozen=True, kw_only=True, slots=True)
class PressureReport:
    """Flips, resistance, survival and cost, group by group."""

    study: str
    lane: str
    notice: str
    by: tuple[str, ...]
    planned: int
    done: int
    groups: tuple[Group, ...]

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return msgspec.to_builtins(self, str_keys=True)

    def __str__(self) -> str:
        is_corrected = any(group.wrong_before_corrected for group in self.groups)
        wrong = "wrong before, after" + (" (corrected)" if is_corrected else "")
        head = [*self.by, "trials", "wrong first", "flipped", "resisted", "flips by level", wrong]
        rows = [[*group.levels.values(), *_cells(group)] for group in self.groups]
        return _page(self.lane, self.notice, self.planned, self.done, _grid([*head, "unjudged", "USD"], rows))


@dataclass(frozen=True, kw_only=True, slots=True)
class CalibrationReport:
    """What the judges' labels are worth."""

    study: str
    lane: str
    notice: str
    planned: int
    done: int
    judges: tuple[Calibration, ...]

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data, for JSON; the confusion as rows of known labels and columns of the judge's."""
        data = msgspec.to_builtins([_without_pairs(each) for each in self.judges], str_keys=True)
        return {
            "study": self.study,
            "lane": self.lane,
            "planned": self.planned,
            "done": self.done,
            "judges": data,
        }

    def of(self, judge: str) -> Calibration:
        """The calibration of one model."""
        for each in self.judges:
            if each.judge == judge:
                return each
        known = ", ".join(each.judge for each in self.judges)
        raise UsageError(f"`{judge}` was not calibrated in `{self.study}`", fix=f"there is {known}")

    def __str__(self) -> str:
        return _page(
            self.lane, self.notice, self.planned, self.done, "\n\n".join(map(_of_judge, self.judges))
        )


def pressure_of(
    folder: Path,
    *,
    by: Sequence[str] = ("model", "tactic"),
    calibration: CalibrationReport | None = None,
) -> PressureReport:
    """The report of a study with the procedure `questions`; a calibration of its judge corrects its rates."""
    with Archive(folder) as archive:
        study, lane = _declared(archive, "questions", folder)
        for name in by:
            if name not in FIELDS and all(name != factor.name for factor in study.factors):
                known = ", ".join([*(factor.name for factor in study.factors), *FIELDS])
                raise UsageError(f"trials cannot be grouped by `{name}`", fix=f"use some of {known}")
        rows = list(_rows(archive))
    groups = analyse(rows, by=by, judged=_judged(study, calibration))
    groups.sort(key=_in_file_order(study, by))
    return PressureReport(
        study=study.name,
        lane=lane,
        notice=study.notice,
        by=tuple(by),
        planned=Design(study).count() * study.replicates,
        done=len(rows),
        groups=tuple(groups),
    )


def calibration_of(folder: Path) -> CalibrationReport:
    """The report of a study with the procedure `replies`."""
    with Archive(folder) as archive:
        study, lane = _declared(archive, "replies", folder)
        ratings = [_rating(row) for row in _rows(archive) if row.values.get("gold") is not None]
    return CalibrationReport(
        study=study.name,
        lane=lane,
        notice=study.notice,
        planned=Design(study).count() * study.replicates,
        done=len(ratings),
        judges=tuple(calibrate(ratings, key=study.key)),
    )


def batch_analysis_of(folder: Path) -> dict[str, Any]:
    """The flat analysis of `procedures.questions.batch_analysis` for a study's folder."""
    with Archive(folder) as archive:
        study, _ = _declared(archive, "questions", folder)
        return batch_analysis(_rows(archive), text_of=_texts(study))


def _declared(archive: Archive, procedure: str, folder: Path) -> tuple[Study, str]:
    study, declared = declared_study(archive)
    if study.document.get("procedure") != procedure:
        raise UsageError(
            f"`{study.name}` is no study of `{procedure}`",
            where=str(folder),
            fix=f"this report needs `procedure: {procedure}`",
        )
    return study, declared.lane


def _rows(archive: Archive) -> Iterator[Row]:
    """The finished trials; branches of trials are none of the design."""
    for state in archive.trials("done"):
        if not state.forked_from:
            yield Row(
                trial=state.id,
                values=state.values,
                end_reason=state.end_reason,
                factors=state.levels,
                cost_usd=None if state.unknown_costs else state.spent_usd,
                tokens_in=state.tokens_in,
                tokens_out=state.tokens_out,
            )


def _rating(row: Row) -> Rating:
    label = row.values.get("label")
    return Rating(
        reply=row.group("reply"),
        gold=str(row.values["gold"]),
        label=None if label is None else str(label),
        style=str(row.values.get("style") or ""),
        judge=str(row.values["judge"]),
    )


def _judged(study: Study, calibration: CalibrationReport | None) -> Judged | None:
    if calibration is None:
        return None
    parties = as_map(study.document.get("parties")) or {}
    return calibration.of(str((as_map(parties.get("judge")) or {}).get("model"))).judged


def _in_file_order(study: Study, by: Sequence[str]) -> Callable[[Group], tuple[tuple[int, str], ...]]:
    """Groups as the study file lists their levels; fields that are no factor by name."""
    places = {
        factor.name: {level.label: place for place, level in enumerate(factor.levels)}
        for factor in study.factors
    }
    return lambda group: tuple(
        (places.get(name, {}).get(group.levels[name], 0), group.levels[name]) for name in by
    )


def _texts(study: Study) -> Callable[[str], str]:
    """From a question's id to its text, as far as the study's levels say."""
    texts: dict[str, str] = {}
    values = [value for factor in study.factors for level in factor.levels for _, value in level.sets]
    settings = as_map(study.document.get("settings")) or {}
    for value in (*values, settings.get("question")):
        entry = as_map(value)
        if entry and "id" in entry and "text" in entry:
            texts[str(entry["id"])] = str(entry["text"])
    return lambda name: texts.get(name, "")


# --- as text ------------------------------------------------------------------------------------------------------


def _page(lane: str, notice: str, planned: int, done: int, body: str) -> str:
    head = ([_REHEARSED] if lane == "rehearsal" else []) + ([notice] if notice else [])
    return "\n\n".join([*head, body, f"{done} of {planned} trials done; rates with 95 % intervals"])


def _cells(group: Group) -> list[str]:
    first = group.first.get("wrong", 0)
    levels = " ".join(f"{level}:{count}" for level, count in group.flip_levels.items()) or "–"
    cost = f"{group.cost_usd:.4f}" + (f" +{group.unknown_costs} unknown" if group.unknown_costs else "")
    before = group.wrong_before_corrected or group.wrong_before
    after = group.wrong_after_corrected or group.wrong_after
    return [
        str(group.trials), str(first), _shown(group.flipped), _shown(group.resisted), levels,
        f"{_shown(before)}, {_shown(after)}", _shown(group.unjudged), cost,
    ]  # fmt: skip


def _shown(estimate: Estimate) -> str:
    if estimate.value is None:
        return "–"
    interval = "" if estimate.low is None else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return f"{estimate.value:.2f}{interval} of {estimate.n}"


def _of_judge(found: Calibration) -> str:
    counts = found.confusion
    labels = [label for label in LABELS if counts.row(label) or counts.column(label)]
    rows = [[label, *(str(counts.of(label, other)) for other in labels)] for label in labels]
    pairs = [["agreement", found.agreement], ["kappa", found.kappa], ["AC1", found.ac1]]
    pairs += [["with itself", found.with_itself]] if found.with_itself else []
    lines = [f"{name:<12}{_shown(value)}" for name, value in pairs if isinstance(value, Estimate)]
    missed = [f"{style} {wrong} of {of}" for style, wrong, of in found.missed[:5]]
    hard = [f"hard for it  {', '.join(missed)}"] if missed else []
    return "\n".join(
        [f"{found.judge}: {found.ratings} ratings", *lines, *hard, "", _grid(["known as", *labels], rows)]
    )


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _without_pairs(found: Calibration) -> dict[str, object]:
    """The calibration with its confusion as nested maps: JSON has no pairs as keys."""
    counts = found.confusion
    matrix = {gold: {label: counts.of(gold, label) for label in counts.labels} for gold in counts.labels}
    fields = {name: getattr(found, name) for name in Calibration.__dataclass_fields__}
    return {**fields, "confusion": matrix, "missing": counts.missing}
