"""Kill it: SIGKILL from outside at random points, each time followed by a resume.

The long form, a hundred kills: `./dev test -m long tests/faults/test_kill.py`.
"""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from trialrun.core import facts as f
from trialrun.store.archive import Archive

CHILD = Path(__file__).with_name("child_study.py")
STUDY = """
study: kill-me
procedure: conversation
parties:
  asker: {model: openai/gpt-5-mini, prompt: "Interview them about {{ topic }}.", values: {topic: work}, max_tokens: 60}
  teller: {model: anthropic/claude-haiku-4-5, prompt: "You tell about your day.", max_tokens: 60}
factors:
  topic: {parties.asker.values.topic: [work, sleep, food]}
judges:
  detail: {model: openai/gpt-5, question: "How detailed are the answers?", scale: [1, 5]}
measures: [detail, teller.words]
replicates: 12
settings: {max_turns: 4}
limits: {open_trials: 12}
budget_usd: 50
prices:
  openai/gpt-5-mini: {input: 0.25, output: 2}
  openai/gpt-5: {input: 1.25, output: 10}
  anthropic/claude-haiku-4-5: {input: 1, output: 5}
seed: 7
"""
OPEN = 12
Book = list[tuple[str, str, int]]


def start(file: Path, folder: Path, book: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(file), str(folder), str(book)], stderr=subprocess.PIPE
    )


def read_book(book: Path) -> Book:
    if not book.exists():
        return []
    # A line that is just being written has no end yet.
    lines = book.read_text().rpartition("\n")[0].splitlines()
    return [(kind, place, int(attempt)) for kind, place, attempt in (line.split() for line in lines)]


def settled_places(folder: Path) -> set[str]:
    """Calls whose reply is in the journal."""
    if not (folder / "study.db").exists():
        return set()
    with Archive(folder) as archive:
        return {f"{call.trial}/{call.at}" for call in archive.calls() if call.status == "settled"}


def tables(folder: Path) -> dict[str, object]:
    """Everything that a paper would use, without times and the accidental order of execution."""
    with Archive(folder) as archive:
        trials = {
            state.id: (
                state.condition,
                state.status,
                state.values,
                state.end_reason,
                state.spent_usd,
                state.turns,
            )
            for state in archive.trials()
        }
        messages = sorted(
            (row.trial, row.number, row.party, row.text, row.turn) for row in archive.messages()
        )
        measures = sorted((row.trial, row.at, row.name, repr(row.value)) for row in archive.measures())
        paid = sorted(
            (row.trial, row.at, str(row.cost_usd)) for row in archive.calls() if row.status == "settled"
        )
    return {"trials": trials, "messages": messages, "measures": measures, "paid": paid}


def kill_and_resume(tmp_path: Path, *, kills: int, replicates: int, seed: int) -> None:
    file, folder, book = tmp_path / "study.yaml", tmp_path / "killed", tmp_path / "book"
    file.write_text(STUDY.replace("replicates: 12", f"replicates: {replicates}"))
    calls = 3 * replicates * (4 * 2 + 1)
    dice = random.Random(seed)
    done_kills = 0
    while done_kills < kills:
        settled_before, lines_before = settled_places(folder), len(read_book(book))
        child = start(file, folder, book)
        # A random point: after so many more lines in the far end's book, or a moment after the start.
        target = lines_before + dice.randrange(0, max(2, calls // kills))
        until = time.monotonic() + 20
        while len(read_book(book)) <= target and child.poll() is None and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(dice.random() * 0.01)
        child.kill()
        _, errors = child.communicate()
        assert child.returncode == -signal.SIGKILL, f"it ended before the last kill: {errors.decode()}"
        done_kills += 1
        new = read_book(book)[lines_before:]
        asked_again = settled_before & {place for kind, place, _ in new if kind == "sent"}
        assert not asked_again, f"settled calls were asked again: {sorted(asked_again)[:3]}"
    child = start(file, folder, book)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors.decode()

    whole, whole_book = tmp_path / "whole", tmp_path / "whole-book"
    uninterrupted = start(file, whole, whole_book)
    _, errors = uninterrupted.communicate(timeout=120)
    assert uninterrupted.returncode == 0, errors.decode()
    assert tables(folder) == tables(whole)

    billed = [place for kind, place, _ in read_book(book) if kind == "billed"]
    paid_twice = len(billed) - len(set(billed))
    assert set(billed) == settled_places(folder)
    # What was in flight at a kill may have been billed; it is counted, shown and bounded by what can be in flight.
    assert paid_twice <= OPEN * done_kills
    with Archive(folder) as archive:
        doubtful = [call for call in archive.calls() if call.status == "in_doubt"]
        held = archive.total().held_usd
    assert paid_twice <= len(doubtful)
    assert held == sum(call.ceiling_usd or 0 for call in doubtful)


def test_a_study_killed_at_random_points_resumes_without_paying_twice(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, kills=8, replicates=12, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
def test_a_hundred_kills_lose_nothing_and_pay_nothing_twice(tmp_path: Path, seed: int) -> None:
    kill_and_resume(tmp_path, kills=100, replicates=70, seed=seed)


def test_every_attempt_at_the_far_end_was_announced_in_the_journal_first(tmp_path: Path) -> None:
    file, folder, book = tmp_path / "study.yaml", tmp_path / "killed", tmp_path / "book"
    file.write_text(STUDY)
    child = start(file, folder, book)
    while len(read_book(book)) < 60 and child.poll() is None:
        time.sleep(0.001)
    child.kill()
    child.communicate()
    held: set[tuple[str, int]] = set()
    with Archive(folder) as archive:
        for state in archive.trials():
            for entry in archive.facts_of(state.id):
                if isinstance(entry.fact, f.Held):
                    held.add((f"{state.id}/{entry.fact.at}", entry.fact.attempt))
    assert {(place, attempt) for kind, place, attempt in read_book(book) if kind == "sent"} <= held
