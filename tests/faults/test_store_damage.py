"""A study's file after bytes of it have changed: what is noticed, how it is named, and how it is mended."""

import asyncio
import os
import random
from decimal import Decimal
from pathlib import Path

import pytest

from tests.faults.store_support import CLOCK, alter, make_study, open_journal, problems_of
from trialrun.core import facts as f
from trialrun.core.errors import StoreCorrupt, StoreError
from trialrun.core.identity import text_hash
from trialrun.store import inspection, schema
from trialrun.store.archive import Archive
from trialrun.store.lock import holder_of
from trialrun.testing.made_facts import finished, held, settled, started, write


async def test_a_damaged_fact_is_named_and_set_aside_and_only_its_trial_begins_anew(tmp_path: Path) -> None:
    await make_study(tmp_path)
    with Archive(tmp_path) as archive:
        victim = archive.facts_of("t2")[2]
    assert isinstance(victim.fact, f.Settled)
    alter(tmp_path, "UPDATE fact SET body = replace(body, '0.20', '9.20') WHERE seq = ?", victim.seq)

    journal = open_journal(tmp_path)
    with pytest.raises(StoreCorrupt) as caught:
        await journal.facts_of("t2")
    await journal.close()
    assert f"fact {victim.seq} of trial t2" in caught.value.what
    assert f"--quarantine {victim.seq}" in caught.value.fix

    problems = inspection.check(tmp_path)
    assert {(problem.seq, problem.trial) for problem in problems} == {(victim.seq, "t2")}

    assert inspection.quarantine(tmp_path, victim.seq, clock=CLOCK) == "t2"
    assert inspection.check(tmp_path) == []
    journal = open_journal(tmp_path)
    state = (await journal.states(["t2"]))["t2"]
    assert (state.status, state.generation) == ("planned", 1)
    assert state.held_usd == Decimal("0.50"), "what the lost settlement cost is not known: its hold counts"
    total = await journal.total()
    assert total.by_status == {"done": 4, "planned": 1}
    assert total.spent_usd == Decimal("0.80")
    await write(journal, "t2", started(replicate=2), held("1"), settled("1"), finished())
    await journal.close()
    assert inspection.check(tmp_path) == []
    with Archive(tmp_path) as archive:
        assert [call.superseded for call in archive.calls(["t2"])] == [True, False]


@pytest.mark.parametrize(
    "harm",
    [
        "UPDATE fact SET body = x'00' WHERE seq = 3",
        "UPDATE fact SET trial = 't4' WHERE seq = 3",
        "UPDATE fact SET at = at + 1 WHERE seq = 3",
        "UPDATE fact SET crc = crc + 1 WHERE seq = 3",
        "UPDATE fact SET body = replace(body, 'settled', 'sittled') WHERE seq = 3",
        "DELETE FROM fact WHERE seq = 3",
        "UPDATE fact SET seq = 1000 WHERE seq = 3",
        "UPDATE text SET body = x'313233' WHERE rowid = 2",
        "DELETE FROM text WHERE rowid = 2",
        "UPDATE trial SET spent = spent + 1 WHERE id = 't1'",
        "UPDATE trial SET status = 'failed' WHERE id = 't1'",
        "DELETE FROM trial WHERE id = 't1'",
        "UPDATE trial SET levels = x'7b7d' WHERE id = 't1'",
    ],
)
async def test_a_check_finds_every_single_harm(tmp_path: Path, harm: str) -> None:
    await make_study(tmp_path)
    assert inspection.check(tmp_path) == []
    alter(tmp_path, harm)
    problems = inspection.check(tmp_path)
    assert problems
    assert all(problem.what and problem.fix for problem in problems)


async def test_a_rebuild_makes_the_table_of_trials_what_the_facts_say(tmp_path: Path) -> None:
    await make_study(tmp_path)
    assert inspection.rebuild(tmp_path, clock=CLOCK) == []
    alter(tmp_path, "UPDATE trial SET spent = 0, status = 'failed' WHERE id = 't1'")
    alter(tmp_path, "DELETE FROM trial WHERE id = 't2'")
    differences = inspection.rebuild(tmp_path, clock=CLOCK)
    assert {(difference.trial, difference.column) for difference in differences} == {
        ("t1", "status"),
        ("t1", "spent"),
        ("t2", "id"),
    }
    assert inspection.check(tmp_path) == []
    with Archive(tmp_path) as archive:
        assert archive.total().by_status == {"done": 5}


async def test_a_trial_whose_row_is_damaged_takes_no_facts(tmp_path: Path) -> None:
    await make_study(tmp_path)
    alter(tmp_path, "UPDATE trial SET levels = x'7b' WHERE id = 't1'")
    journal = open_journal(tmp_path)
    journal.append("t1", [f.Retried(reason="again")])
    with pytest.raises(StoreCorrupt, match="row of trial t1"):
        await journal.commit()
    with pytest.raises(StoreCorrupt, match="row of trial t1"):
        journal.append("t2", [f.Retried(reason="again")])
    journal.abandon()
    with Archive(tmp_path) as archive:
        assert not any(isinstance(entry.fact, f.Retried) for entry in archive.facts_of("t1"))


async def test_a_damaged_text_is_forgotten_by_a_rebuild_and_stored_again_when_it_is_used(
    tmp_path: Path,
) -> None:
    await make_study(tmp_path)
    alter(tmp_path, "UPDATE text SET body = x'ff' WHERE hash = unhex(?)", text_hash("shared"))
    named = [problem for problem in inspection.check(tmp_path) if problem.seq is not None]
    assert {problem.trial for problem in named} == {f"t{number}" for number in range(5)}
    inspection.rebuild(tmp_path, clock=CLOCK)
    journal = open_journal(tmp_path)
    journal.append("t9", [started(replicate=9)], {text_hash("shared"): "shared"})
    await journal.commit()
    await journal.close()
    assert inspection.check(tmp_path) == []


async def test_a_damaged_fork_still_knows_where_it_branches_off(tmp_path: Path) -> None:
    await make_study(tmp_path)
    journal = open_journal(tmp_path)
    forked = f.Forked(source="t1", turn=2, overrides={"a": 1})
    await write(journal, "t1-f1", forked)
    await write(journal, "t1-f1", started(), held("1"), settled("1"), finished())
    await journal.close()
    alter(tmp_path, "UPDATE fact SET body = x'' WHERE trial = 't1-f1' AND kind = 'settled'")
    damaged = inspection.check(tmp_path)[0].seq
    assert damaged is not None
    inspection.quarantine(tmp_path, damaged, clock=CLOCK)
    with Archive(tmp_path) as archive:
        assert archive.facts_of("t1-f1")[-1].fact == forked
        state = archive.trial("t1-f1")
    assert state is not None
    assert (state.forked_from, state.status) == ("t1", "planned")


async def test_numbers_of_facts_are_not_given_twice(tmp_path: Path) -> None:
    await make_study(tmp_path, trials=1)
    with Archive(tmp_path) as archive:
        last = archive.facts_of("t0")[-1].seq
    inspection.quarantine(tmp_path, last, clock=CLOCK)
    with Archive(tmp_path) as archive:
        assert archive.facts_of("t0")[-1].seq == last + 1


async def test_a_file_that_is_no_database_says_so(tmp_path: Path) -> None:
    (tmp_path / schema.FILE).write_bytes(b"PK\x03\x04 this is a spreadsheet" * 1000)
    for attempt in (open_journal, Archive, lambda folder: inspection.rebuild(folder, clock=CLOCK)):
        with pytest.raises(StoreCorrupt) as caught:
            attempt(tmp_path)
        assert "not a study's database" in caught.value.what
        assert caught.value.fix
    assert holder_of(tmp_path) is None, "the lock is free again"


async def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    alter(tmp_path, "CREATE TABLE bookmarks (url TEXT)")
    before = (tmp_path / schema.FILE).read_bytes()
    for attempt in (open_journal, Archive):
        with pytest.raises(StoreError, match="another program"):
            attempt(tmp_path)
    assert (tmp_path / schema.FILE).read_bytes() == before


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
async def test_a_truncated_file_is_noticed(tmp_path: Path, keep: float) -> None:
    await make_study(tmp_path, trials=500)
    file = tmp_path / schema.FILE
    os.truncate(file, int(file.stat().st_size * keep))
    problems = problems_of(tmp_path)
    assert problems
    assert all(problem.fix for problem in problems)


def content(folder: Path) -> object:
    """Everything that the study says."""
    with Archive(folder) as archive:
        facts = [archive.facts_of(state.id) for state in archive.trials()]
        return facts, list(archive.trials()), list(archive.messages()), archive.total(), archive.facts_of("")


async def test_random_bytes_in_the_file_are_never_taken_for_a_study_in_order(tmp_path: Path) -> None:
    await make_study(tmp_path / "good", trials=100)
    whole = (tmp_path / "good" / schema.FILE).read_bytes()
    draw = random.Random(1)
    for number in range(25):
        folder = tmp_path / f"bad{number}"
        folder.mkdir()
        harmed = bytearray(whole)
        start = draw.randrange(len(harmed) - 600)
        harmed[start : start + 600] = draw.randbytes(600)
        (folder / schema.FILE).write_bytes(harmed)
        problems = problems_of(folder)
        assert all(problem.fix for problem in problems)
        assert problems or content(folder) == content(tmp_path / "good"), f"nothing noticed at {start}"


def test_a_newer_study_asks_for_a_newer_trialrun(tmp_path: Path) -> None:
    asyncio.run(make_study(tmp_path))
    alter(tmp_path, f"PRAGMA user_version = {schema.VERSION + 1}")
    for attempt in (open_journal, Archive, inspection.check):
        with pytest.raises(StoreError) as caught:
            attempt(tmp_path)
        assert "newer trialrun" in caught.value.what
        assert "upgrade" in caught.value.fix
