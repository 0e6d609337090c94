"""Request files out of questions: one for each model, cut where a provider's batch ends."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trialrun.app.files import write_whole
from trialrun.compat.batch_files.lines import LineId, line_of, takes_temperature
from trialrun.compat.batch_files.services import form_of, model_of
from trialrun.compat.batch_files.tracking import Ledger, RequestFile
from trialrun.core.errors import UsageError
from trialrun.procedures.questions.stimuli import Question

MODEL_MARK = "{model}"
DEFAULT_LIMIT: Mapping[str, int | None] = {"openai": None, "anthropic": 1000, "gemini": 1000}
"""Tokens of an answer unless given, by the form of the lines. OpenAI's documented line has no limit."""
MOST_REQUESTS: Mapping[str, int] = {"openai": 50_000, "anthropic": 100_000, "gemini": 50_000}
MOST_BYTES: Mapping[str, int] = {"openai": 200_000_000, "anthropic": 256_000_000, "gemini": 1_000_000_000}


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a request file asks, beside the questions."""

    temperature: float | None = 0.0
    max_tokens: int | None = None
    """The provider's usual if None."""
    system: str = ""
    batch_size: int | None = None
    """So many requests in one file at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """The files for one model."""

    service: str
    model: str
    files: tuple[RequestFile, ...]
    notes: tuple[str, ...] = ()


def create(
    ledger: Ledger,
    *,
    models: Sequence[tuple[str, str]],
    questions: Mapping[int, Question],
    source: str,
    output: str,
    wish: Wish,
    overwrite: bool = False,
) -> list[Made]:
    """Write the files. `models` are pairs of service and model; several of them need several files."""
    names = [model_of(service, model) for service, model in models]
    if len(set(names)) < len(names):
        raise UsageError("a model is named twice", fix="name each model once")
    drafts = [
        _draft(service, model, questions, output=_output(output, model, is_alone=len(models) == 1), wish=wish)
        for service, model in models
    ]
    _check_sent(ledger, drafts, overwrite=overwrite)
    return [_written(ledger, draft, source) for draft in drafts]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    service: str
    model: str
    parts: tuple[tuple[Path, tuple[bytes, ...]], ...]
    notes: tuple[str, ...]


def _draft(
    service: str, model: str, questions: Mapping[int, Question], *, output: Path, wish: Wish
) -> _Draft:
    form, name = form_of(service), model_of(service, model)
    limit = wish.max_tokens if wish.max_tokens is not None else DEFAULT_LIMIT[form]
    lines = [
        line_of(
            form,
            LineId(number=number),
            name,
            question.text,
            temperature=wish.temperature,
            max_tokens=limit,
            system=wish.system,
        )
        for number, question in questions.items()
    ]
    notes: list[str] = []
    if name != model.partition("/")[2] and name != model:
        notes.append(f"`{model}` is `{name}` to its provider")
    if wish.temperature is not None and not takes_temperature(form, name):
        notes.append(f"`{name}` takes no temperature, so none is sent")
    parts = _parts(lines, form, wish.batch_size)
    paths = (
        [output] if len(parts) == 1 else [_numbered(output, number) for number in range(1, len(parts) + 1)]
    )
    return _Draft(
        service=service,
        model=name,
        parts=tuple(zip(paths, map(tuple, parts), strict=True)),
        notes=tuple(notes),
    )


def _parts(lines: Sequence[bytes], form: str, batch_size: int | None) -> list[list[bytes]]:
    """The lines, cut where a batch would be too long or too large."""
    most = min(batch_size or MOST_REQUESTS[form], MOST_REQUESTS[form])
    parts: list[list[bytes]] = [[]]
    size = 0
    for line in lines:
        if len(parts[-1]) == most or (parts[-1] and size + len(line) > MOST_BYTES[form]):
            parts.append([])
            size = 0
        parts[-1].append(line)
        size += len(line)
    return parts


def _check_sent(ledger: Ledger, drafts: Sequence[_Draft], *, overwrite: bool) -> None:
    """A file that was submitted explains its answers, so it is not changed unless somebody says so."""
    sent = {Path(batch.input).resolve(): batch for batch in ledger.read().batches if batch.input}
    for draft in drafts:
        for path, lines in draft.parts:
            batch = sent.get(path.resolve())
            if batch and not overwrite and batch.sha256 != _sha256(lines):
                raise UsageError(
                    f"`{path}` was submitted as {batch.name}, and would change",
                    where=str(path),
                    fix="write another `--output`, or say `--overwrite`",
                )


def _written(ledger: Ledger, draft: _Draft, source: str) -> Made:
    files: list[RequestFile] = []
    for path, lines in draft.parts:
        write_whole(path, lines)
        files.append(
            RequestFile(
                path=str(path),
                provider=draft.service,
                model=draft.model,
                requests=len(lines),
                sha256=_sha256(lines),
                questions=source,
            )
        )
    with ledger.open() as book:
        for file in files:
            book.put_file(file)
    return Made(service=draft.service, model=draft.model, files=tuple(files), notes=draft.notes)


def _output(output: str, model: str, *, is_alone: bool) -> Path:
    """The file for a model: where the name says `{model}`, or behind the name if there are several."""
    safe = "".join(sign if sign.isalnum() or sign in "-._" else "-" for sign in model.rpartition("/")[2])
    if MODEL_MARK in output:
        return Path(output.replace(MODEL_MARK, safe))
    path = Path(output)
    return path if is_alone else path.with_name(f"{path.stem}_{safe}{path.suffix}")


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.stem}_part{number}{path.suffix}")


def _sha256(lines: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for line in lines:
        digest.update(line)
    return digest.hexdigest()
