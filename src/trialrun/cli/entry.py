"""From the words on the command line to an exit code. Here, and nowhere else, errors become reports.

An expected error says what, where and the fix, and shows no traceback. A bug of ours says so in one paragraph and
leaves its traceback in a file.
"""

import sys
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from trialrun.app.exits import Exit, exit_of
from trialrun.cli.group import commands
from trialrun.cli.screen import Screen, Shown
from trialrun.compat.registry import offer_all
from trialrun.core.errors import StudyMistakes, TrialrunError

_PROGRAM = "trialrun"


def run(arguments: Sequence[str], program: click.Command = commands, name: str = _PROGRAM) -> int:
    """Carry out one command. `name` is what the user called."""
    screen = Screen.of(arguments)
    offer_all()
    try:
        answer = program.main(list(arguments), prog_name=name, standalone_mode=False, obj=screen)
    except BaseException as error:  # noqa: BLE001  # the outermost boundary: everything ends in an exit code
        return _failed(screen, _told(error))
    if isinstance(answer, Shown):
        screen.show(answer)
        return int(answer.exit)
    return int(answer or 0)


def _told(error: BaseException) -> BaseException:
    """Of errors that came together, the one that explains the others: a bug of ours first."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found = list(_leaves(cast("BaseExceptionGroup[BaseException]", error)))
    return min(found, key=lambda each: (isinstance(each, (TrialrunError, KeyboardInterrupt)), str(each)))


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", error))
        else:
            yield error


def _failed(screen: Screen, error: BaseException) -> int:
    match error:
        case SystemExit(code=int(code)) if code:
            return code
        case SystemExit():
            what = "something in a procedure's own tasks ended the program with `sys.exit`"
            fix = "nothing settled is lost; let a procedure end by returning, and run again"
            return _report(screen, what, fix=fix, code=Exit.INTERRUPTED)
        case click.exceptions.Exit():
            return error.exit_code
        case click.Abort() | KeyboardInterrupt():
            return _report(screen, "interrupted; nothing settled is lost", code=Exit.INTERRUPTED)
        case click.exceptions.NoArgsIsHelpError():
            screen.err.write(error.format_message() + "\n")
            return int(Exit.USAGE)
        case click.UsageError():
            return _misused(screen, error)
        case click.ClickException():
            return _report(screen, error.format_message(), code=Exit.USAGE)
        case TrialrunError():
            code = exit_of(error)
            if screen.as_json:
                screen.show_data({"error": error_data(error), "exit": int(code)})
            else:
                screen.complain(error.report())
            return int(code)
        case BrokenPipeError():
            return int(Exit.INTERRUPTED)
        case OSError():
            what = error.strerror or str(error)
            where = str(error.filename or "")
            fix = "make room or give access, then run this again"
            return _report(screen, what, where=where, fix=fix, code=Exit.STORE)
        case _:
            return _bug(screen, error)


def error_data(error: TrialrunError) -> dict[str, object]:
    """The error for programs. Several mistakes of a study file are all there, the first one on top."""
    data: dict[str, object] = {"what": error.what, "where": error.where, "fix": error.fix}
    if isinstance(error, StudyMistakes):
        data["mistakes"] = [
            {"what": each.what, "where": each.file, "line": each.line, "fix": each.fix}
            for each in error.mistakes
        ]
    return data


def _report(screen: Screen, what: str, *, where: str = "", fix: str = "", code: Exit) -> int:
    if screen.as_json:
        screen.show_data({"error": {"what": what, "where": where, "fix": fix}, "exit": int(code)})
    else:
        screen.complain(TrialrunError(what, where=where, fix=fix).report())
    return int(code)


def _misused(screen: Screen, error: click.UsageError) -> int:
    path = error.ctx.command_path if error.ctx else _PROGRAM
    message = error.format_message().rstrip(".")
    what = message[:1].lower() + message[1:]
    return _report(screen, what, fix=f"`{path} --help` shows how it is used", code=Exit.USAGE)


def _bug(screen: Screen, error: BaseException) -> int:
    """Our own fault: one clear paragraph, and the traceback where it can be found."""
    trace = "".join(traceback.format_exception(error))
    kept = _kept(screen.folder, trace)
    where = str(kept) if kept else ""
    if kept is None:
        screen.err.write(trace)
    what = f"Trialrun itself broke, not your study: {type(error).__name__}: {error}"
    fix = "nothing settled is lost, and the same command continues; please report it" + (
        " with the file above" if kept else " with the traceback above"
    )
    return _report(screen, what, where=where, fix=fix, code=Exit.BUG)


def _kept(folder: Path | None, trace: str) -> Path | None:
    if folder is None or not folder.is_dir():
        return None
    now = datetime.now(UTC)
    file = folder / f"bug-{now:%Y%m%d-%H%M%S}.txt"
    try:
        file.write_text(f"{now:%Y-%m-%d %H:%M:%S} UTC\n{' '.join(sys.argv)}\n\n{trace}", encoding="utf-8")
    except OSError:
        return None
    return file
