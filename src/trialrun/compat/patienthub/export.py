"""Sessions as tables: `load_sessions`, `sessions_to_dataframe`, and the CSV files of `python -m examples.export`.

They read the session files of a folder and need nothing else, so files of another origin with the same keys will do.
A run that failed has no session and is no row. A word is what Trialrun's measures count as one (`therapist.words`).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from trialrun.compat.patienthub.rows import ERROR
from trialrun.compat.patienthub.summary import SUMMARY
from trialrun.core.errors import UsageError
from trialrun.export.csv import CsvWriter
from trialrun.measures.text import word_count
from trialrun.procedures.therapy.actors import CLIENT, THERAPIST
from trialrun.stats.moments import deviation_of, mean_of

Session = dict[str, Any]
SESSION_COLUMNS = (
    "source_file", "patient_name", "num_turns", "total_messages", "therapist_words", "client_words",
    "client", "therapist", "run_id", "end_reason", "total_cost", "lane",
)  # fmt: skip
TURN_COLUMNS = (
    "session_file", "turn_idx", "role", "content", "word_count", "turn", "client", "therapist", "run_id", "lane",
)  # fmt: skip
STATE_COLUMNS = ("session_file", "turn", "party", "name", "value", "client", "therapist", "run_id", "lane")
NUMBERS = ("num_turns", "total_messages", "therapist_words", "client_words")
_INDEX = ("source_file", "client", "therapist", "run_id")
_DIGITS = re.compile(r"(\d+)")


def load_sessions(input_dir: str | Path) -> list[Session]:
    """The sessions in a folder, each with its `source_file`; run 2 comes before run 10. Failed runs are left out."""
    return [session for session in _read(Path(input_dir)) if session.get("status") != ERROR]


def failed_in(input_dir: str | Path) -> int:
    """How many runs in a folder failed."""
    return sum(session.get("status") == ERROR for session in _read(Path(input_dir)))


def _read(folder: Path) -> Iterator[Session]:
    if not folder.is_dir():
        raise UsageError(
            f"there is no folder `{folder}`", where=str(folder), fix="name the output folder of a batch"
        )
    for file in sorted(folder.glob("*.json"), key=_natural):
        if file.name == SUMMARY:
            continue
        try:
            found: object = json.loads(file.read_bytes())
        except ValueError as error:
            raise UsageError(
                f"`{file.name}` is no JSON: {error}",
                where=str(file),
                fix="remove it, or run the batch again: it is written anew",
            ) from error
        if isinstance(found, dict) and "messages" in found:
            yield {**cast("Session", found), "source_file": str(file)}


def _natural(file: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _DIGITS.split(file.name)]


def sessions_to_dataframe(sessions: Iterable[Mapping[str, Any]]) -> Any:
    """One row for each session, as pandas has it. File, client, therapist and run are the index, so every column but
    `patient_name` is a number: `df.groupby("patient_name").mean()` works, and so does `df.groupby("therapist")`."""
    from trialrun.app.findings.frames import library

    library("pandas")
    import pandas as pd

    rows = list(session_rows(sessions))
    cells: dict[str, Any] = {name: [row[name] for row in rows] for name in _INDEX}
    cells["patient_name"] = pd.Series([row["patient_name"] for row in rows], dtype="str")
    for name in NUMBERS:
        cells[name] = pd.Series([row[name] for row in rows], dtype="int64")
    cells["total_cost"] = pd.Series([row["total_cost"] for row in rows], dtype="float64")
    return pd.DataFrame(cells).set_index(list(_INDEX))


def session_rows(sessions: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row of `SESSION_COLUMNS` for each session."""
    for session in sessions:
        messages = cast("Sequence[Mapping[str, Any]]", session["messages"])
        profile, usage = (cast("Mapping[str, Any]", session.get(key) or {}) for key in ("profile", "usage"))
        words = {
            role: sum(word_count(message["content"]) for message in messages if message["role"] == role)
            for role in (THERAPIST, CLIENT)
        }
        yield {
            "source_file": session.get("source_file"),
            "patient_name": session.get("patient_name") or profile.get("name"),
            "num_turns": session["num_turns"],
            "total_messages": len(messages),
            "therapist_words": words[THERAPIST],
            "client_words": words[CLIENT],
            **{name: session.get(name) for name in ("client", "therapist", "run_id", "end_reason")},
            "total_cost": usage.get("total_cost"),
            "lane": session.get("lane"),
        }


def turn_rows(sessions: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row of `TURN_COLUMNS` for each message. `turn_idx` counts the messages of a session from 0; `turn` counts pairs
    of therapist and client from 1."""
    for session in sessions:
        for number, message in enumerate(cast("Sequence[Mapping[str, Any]]", session["messages"])):
            yield {
                "session_file": session.get("source_file"),
                "turn_idx": number,
                "role": message["role"],
                "content": message["content"],
                "word_count": word_count(message["content"]),
                "turn": message.get("turn"),
                **_who(session),
            }


def state_rows(sessions: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A row of `STATE_COLUMNS` for each hidden value of each turn."""
    for session in sessions:
        for state in cast("Sequence[Mapping[str, Any]]", session.get("states") or ()):
            for name, value in state.items():
                if name not in ("turn", "party"):
                    at = {"turn": state["turn"], "party": state["party"]}
                    yield {
                        "session_file": session.get("source_file"),
                        **at,
                        "name": name,
                        "value": value,
                        **_who(session),
                    }


def _who(session: Mapping[str, Any]) -> dict[str, Any]:
    return {name: session.get(name) for name in ("client", "therapist", "run_id", "lane")}


LEVELS = {
    "session": (SESSION_COLUMNS, session_rows),
    "turn": (TURN_COLUMNS, turn_rows),
    "state": (STATE_COLUMNS, state_rows),
}


def write_csv(sessions: Iterable[Mapping[str, Any]], output: str | Path, *, level: str = "session") -> int:
    """Write the table of this level. Returns how many rows it has. What a spreadsheet would run is defused."""
    columns, rows = LEVELS[level]
    target = Path(output)
    target.parent.mkdir(parents=True, exist_ok=True)
    return CsvWriter().write(columns, rows(sessions), target)


def statistics_of(sessions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For every combination, and for all: n, mean, sample standard deviation, least and most of each number."""
    cells: dict[str, list[dict[str, Any]]] = {}
    for row in session_rows(sessions):
        name = f"{row['client']}_{row['therapist']}" if row["client"] else str(row["patient_name"])
        cells.setdefault(name, []).append(row)
    everything = [row for rows in cells.values() for row in rows]
    if len(cells) > 1:
        cells["all"] = everything
    found: list[dict[str, Any]] = []
    for name, rows in cells.items():
        for number in NUMBERS:
            values = [float(row[number]) for row in rows]
            found.append(
                {
                    "combination": name,
                    "number": number,
                    "n": len(values),
                    "mean": mean_of(values),
                    "std": deviation_of(values) if len(values) > 1 else None,
                    "min": min(values),
                    "max": max(values),
                }
            )
    return found
