"""Request files that follow from answers: the next level of pressure, and what has to be asked again."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trialrun.app.files import write_whole
from trialrun.compat.batch_files.accounts import Routes
from trialrun.compat.batch_files.fetching import errors_beside
from trialrun.compat.batch_files.lines import LineId, RequestLine
from trialrun.compat.batch_files.pressing import USUAL, Judged, Pressed, press
from trialrun.compat.batch_files.questions import TACTICS, questions_in, tactic_named, tactic_of_lines
from trialrun.compat.batch_files.replies import Answer, answers_in
from trialrun.compat.batch_files.sending import requests_in
from trialrun.compat.batch_files.tracking import Ledger, RequestFile
from trialrun.core.errors import UsageError
from trialrun.procedures.questions.stances import Stance
from trialrun.procedures.questions.stimuli import Question


def press_files(
    ledger: Ledger,
    routes: Routes,
    *,
    requests: Path,
    results: Sequence[Path],
    output: Path,
    tactic: str = "",
    tactics: str = TACTICS,
    lines: str = "",
    questions: str = "",
    analysis: Path | None = None,
) -> Pressed:
    """Write the next level. What is known of the questions comes from the file that they were created from."""
    about = _about(ledger, requests)
    source = questions or (about.questions if about else "")
    known = _questions(source, is_asked_for=bool(questions))
    made = press(
        requests_in(requests),
        _answers(results, routes, about),
        tactic=tactic_named(tactic, file=tactics) if tactic else tactic_of_lines(lines or USUAL),
        questions=known,
        judged=judged_in(analysis, requests, known, about) if analysis else None,
        where=requests,
    )
    if not made.lines and made.not_worth_it and not made.left_out:
        return made
    if not made.lines:
        why = next(iter(made.left_out.values()), "there is nothing to press")
        raise UsageError(
            f"no answer can be pressed: {why}", where=str(requests), fix="are `--results` those of `--input`?"
        )
    _check_output(output, requests)
    _write(ledger, output, made.lines, about, source)
    return made


def retry_files(
    ledger: Ledger, routes: Routes, *, requests: Path, results: Sequence[Path], output: Path
) -> RequestFile | None:
    """Write the requests without an answer, as they were; None if there are none."""
    about = _about(ledger, requests)
    answers = _answers(results, routes, about)
    left = [
        msgspec.json.encode(request.line) + b"\n"
        for request in requests_in(requests)
        if (answer := answers.get(request.id)) is None or answer.text is None
    ]
    if not left:
        return None
    _check_output(output, requests)
    return _write(ledger, output, left, about, about.questions if about else "")


def judged_in(
    analysis: Path, requests: Path, known: Mapping[int, Question], about: RequestFile | None
) -> Judged:
    """What an analysis of `trialrun batch process` says of the answers of this file's model."""
    try:
        document = msgspec.json.decode(analysis.read_bytes(), type=_Document)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(
            f"this is no analysis: {error}", where=str(analysis), fix="write it with `trialrun batch process`"
        ) from error
    model = about.model if about else next(iter(requests_in(requests))).model
    first: dict[int, Stance | None] = {}
    flipped: set[tuple[int, str]] = set()
    for result in document.detailed_results:
        ids = [id_ for text in result.custom_ids if (id_ := LineId.read(text))]
        if result.model != model or not ids or not result.stances:
            continue
        first[ids[0].number] = result.stances[0]
        if result.flip_type == "explicit_flip":
            flipped.add((ids[0].number, result.tactic))
    return Judged(
        first=first,
        flipped=frozenset(flipped),
        expected={number: question.expected for number, question in known.items()},
    )


class _Result(msgspec.Struct):
    model: str
    tactic: str
    flip_type: str
    stances: list[Stance | None]
    custom_ids: list[str]


class _Document(msgspec.Struct):
    detailed_results: list[_Result]


def _about(ledger: Ledger, requests: Path) -> RequestFile | None:
    """What `create` noted of the file."""
    return next(
        (file for file in ledger.read().files if Path(file.path).resolve() == requests.resolve()), None
    )


def _answers(results: Sequence[Path], routes: Routes, about: RequestFile | None) -> dict[str, Answer]:
    files = [
        path for each in results for path in (each, errors_beside(each)) if path.is_file() or path == each
    ]
    return answers_in(files, routes=routes, service=about.provider if about else "")


def _questions(source: str, *, is_asked_for: bool) -> dict[int, Question]:
    """What the file knows; nothing where it is not there any more, unless it was asked for."""
    try:
        return questions_in(source) if source else {}
    except UsageError:
        if is_asked_for:
            raise
        return {}


def _check_output(output: Path, requests: Path) -> None:
    if output.resolve() == requests.resolve():
        raise UsageError("the output is the input", where=str(output), fix="name another `--output`")


def _write(
    ledger: Ledger, output: Path, lines: Sequence[bytes], about: RequestFile | None, questions: str
) -> RequestFile:
    """Write the file, and note whose it is as that of the file from which it follows."""
    write_whole(output, lines)
    first: RequestLine = next(iter(requests_in(output)))
    service = {"openai": "openai", "anthropic": "claude", "gemini": "gemini"}[first.form]
    file = RequestFile(
        path=str(output),
        provider=about.provider if about else service,
        model=about.model if about else first.model,
        requests=len(lines),
        sha256=hashlib.sha256(b"".join(lines)).hexdigest(),
        questions=questions,
    )
    with ledger.open() as book:
        book.put_file(file)
    return file
