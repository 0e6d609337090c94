"""What disks, other programs and people do to a study's file; each time with the real thing, not with a stand-in."""

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import apsw
import pytest

from tests.faults.store_support import CLOCK, make_study, open_journal
from trialrun.core import facts as f
from trialrun.core.errors import StoreError, StudyLocked
from trialrun.core.identity import text_hash
from trialrun.store import inspection, schema
from trialrun.store.archive import Archive
from trialrun.store.inbox import post
from trialrun.store.journal import SqliteJournal
from trialrun.store.lock import holder_of
from trialrun.testing.made_facts import finished, held, settled, started, write

CHILD = Path(__file__).with_name("child_store.py")


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of half a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(
            "needs the right to mount a file system: run as root; the file limit test covers full disks"
        )
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


# --- no room -----------------------------------------------------------------------------------------------------


async def fill(journal: SqliteJournal) -> int:
    """Write until it fails; gives the number of acknowledged facts."""
    for number in range(1, 10_000):
        text = f"{number} " * 2000
        journal.append("big", [f.Ticked(at=str(number), now=number)], {text_hash(text): text})
        await journal.commit()
    raise AssertionError("the disk never became full")


async def test_a_full_disk_stops_the_run_and_a_larger_one_continues_it(tiny_disk: Path) -> None:
    folder = tiny_disk / "study"
    journal = open_journal(folder)
    await write(journal, "big", started())
    with pytest.raises(StoreError) as caught:
        await fill(journal)
    assert "disk is full" in caught.value.what
    assert "make room" in caught.value.fix
    assert str(folder) in caught.value.where
    with pytest.raises(StoreError):
        journal.append("big", [finished()])
    durable = len(await journal.facts_of("big"))
    assert durable > 2
    await journal.close()

    remount(tiny_disk, "size=8m")
    again = open_journal(folder)
    assert len(await again.facts_of("big")) == durable
    await write(again, "big", finished())
    assert (await again.total()).by_status == {"done": 1}
    await again.close()
    assert inspection.check(folder) == []


def test_a_file_limit_stops_the_run_and_what_was_acknowledged_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    child = subprocess.run(
        [sys.executable, str(CHILD), str(folder), "20", "400000"], capture_output=True, text=True, check=False
    )
    assert child.returncode == 3, child.stderr
    assert "disk is full" in child.stderr
    assert "make room" in child.stderr
    assert_prefix(folder, [int(line) for line in child.stdout.splitlines()])


# --- no access ---------------------------------------------------------------------------------------------------


async def test_a_read_only_disk_can_be_read_and_says_so_when_it_shall_be_written(tiny_disk: Path) -> None:
    folder = tiny_disk / "study"
    await make_study(folder)
    remount(tiny_disk, "ro")
    with Archive(folder) as archive:
        assert len(list(archive.messages())) == 10
        assert archive.total().spent_usd == Decimal("1.0")
    assert inspection.check(folder) == []
    for attempt in (lambda: open_journal(folder), lambda: post(folder, "stop", {}, clock=CLOCK)):
        with pytest.raises(StoreError) as caught:
            attempt()
        assert "written" in caught.value.what or "read-only" in caught.value.what
        assert caught.value.fix
        assert str(folder) in caught.value.where


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere; the read-only disk covers this")
async def test_a_folder_without_write_permission_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "study"
    await make_study(folder)
    folder.chmod(0o500)
    try:
        with pytest.raises(StoreError) as caught:
            open_journal(folder)
        assert "written" in caught.value.what
    finally:
        folder.chmod(0o700)


def test_a_folder_that_is_a_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "study").write_text("not a folder")
    with pytest.raises(StoreError) as caught:
        open_journal(tmp_path / "study")
    assert caught.value.fix
    with pytest.raises(StoreError):
        open_journal(tmp_path / "study" / "inner")


def test_a_database_that_is_a_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / schema.FILE).mkdir()
    with pytest.raises(StoreError) as caught:
        open_journal(tmp_path)
    assert caught.value.fix


def test_a_study_that_never_ran_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has not run yet"):
        Archive(tmp_path)
    (tmp_path / schema.FILE).touch()
    with pytest.raises(StoreError, match="has not run yet"):
        Archive(tmp_path)
    assert holder_of(tmp_path) is None


# --- other processes ---------------------------------------------------------------------------------------------


def second_process(folder: Path) -> str:
    """What a process is told that wants to write to the study too."""
    done = subprocess.run(
        [sys.executable, str(CHILD), str(folder), "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return done.stderr


async def test_a_second_process_is_told_who_works_on_the_study(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    said = await asyncio.to_thread(second_process, tmp_path)
    assert f"process {os.getpid()}" in said
    assert "since 20" in said
    assert "trialrun watch" in said
    assert "trialrun stop" in said
    with pytest.raises(StudyLocked):
        open_journal(tmp_path)
    holder = holder_of(tmp_path)
    assert holder is not None
    assert holder.pid == os.getpid()
    await journal.close()
    assert holder_of(tmp_path) is None
    await open_journal(tmp_path).close()


async def test_a_note_that_a_dead_process_left_in_the_lock_file_means_nothing(tmp_path: Path) -> None:
    (tmp_path / "study.lock").write_text('{"pid": 1, "host": "elsewhere", "since": 0}')
    journal = open_journal(tmp_path)
    await journal.close()
    (tmp_path / "study.lock").write_text("garbage")
    assert holder_of(tmp_path) is None
    await open_journal(tmp_path).close()


async def test_wishes_of_other_processes_arrive_while_a_run_writes(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)

    async def work() -> None:
        for number in range(200):
            await write(journal, "t", held(str(number)))

    async def wish() -> None:
        for number in range(50):
            await asyncio.to_thread(post, tmp_path, "answer", {"number": number}, clock=CLOCK)

    async with asyncio.TaskGroup() as group:
        group.create_task(work())
        group.create_task(wish())
    assert [command.body["number"] for command in await journal.commands()] == list(range(50))
    await journal.close()


async def test_a_program_that_keeps_the_database_locked_is_waited_for_and_then_named(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    await write(journal, "t", started())
    other = apsw.Connection(str(tmp_path / schema.FILE))
    other.execute("BEGIN IMMEDIATE")

    async def let_go() -> None:
        await asyncio.sleep(0.2)
        other.execute("COMMIT")

    async with asyncio.TaskGroup() as group:
        group.create_task(write(journal, "t", held("1")))
        group.create_task(let_go())

    other.execute("BEGIN IMMEDIATE")
    journal._writing._connection.set_busy_timeout(100)
    with pytest.raises(StoreError) as caught:
        await write(journal, "t", settled("1"))
    assert "another program keeps the database locked" in caught.value.what
    assert caught.value.fix
    other.close()
    assert len(await journal.facts_of("t")) == 2
    await journal.close()
    again = open_journal(tmp_path)
    await write(again, "t", settled("1"), finished())
    assert (await again.total()).by_status == {"done": 1}
    await again.close()


async def test_a_reader_sees_a_run_that_goes_on_and_does_not_hold_it_up(tmp_path: Path) -> None:
    journal = open_journal(tmp_path)
    await write(journal, "t", started(), held("1"), settled("1", "0.25"))
    await journal.heartbeat({"done": 0})
    with Archive(tmp_path) as archive:
        state = archive.trial("t")
        assert state is not None
        assert (state.status, state.spent_usd) == ("running", Decimal("0.25"))
        await write(journal, "t", held("2"), settled("2", "0.50"))
        assert archive.total().spent_usd == Decimal("0.75"), "facts that the row does not know yet"
        assert [state.spent_usd for state in archive.trials()] == [Decimal("0.75")]
        live = archive.live()
        assert live is not None
        assert live["pid"] == os.getpid()
        listing = archive.trials()
        next(listing)
        await write(journal, "t", finished())
        await journal.close()
        assert archive.total().by_status == {"done": 1}


async def test_a_copy_of_a_stopped_studys_file_is_complete(tmp_path: Path) -> None:
    await make_study(tmp_path / "one", trials=300)
    (tmp_path / "two").mkdir()
    shutil.copy(tmp_path / "one" / schema.FILE, tmp_path / "two")
    assert {file.name for file in (tmp_path / "one").iterdir()} == {schema.FILE, "study.lock"}
    assert inspection.check(tmp_path / "two") == []
    with Archive(tmp_path / "two") as archive:
        assert archive.total().by_status == {"done": 300}
    await open_journal(tmp_path / "two").close()


# --- killed --------------------------------------------------------------------------------------------------------


def assert_prefix(folder: Path, acknowledged: list[int]) -> None:
    """J1 and J2: what is there is everything up to some moment, which is not before the last acknowledgement."""
    assert inspection.check(folder) == []
    journal = open_journal(folder)

    async def look() -> None:
        numbers: list[int] = []
        seqs: list[int] = []
        async for state in journal.with_status():
            entries = await journal.facts_of(state.id)
            assert isinstance(entries[0].fact, f.Started)
            numbers += [int(entry.fact.now) for entry in entries if isinstance(entry.fact, f.Ticked)]
            seqs += [entry.seq for entry in entries]
            said = [entry.fact.text for entry in entries if isinstance(entry.fact, f.Said)]
            assert (await journal.texts(said))[said[0]] == f"text of {state.id}"
            ended = any(isinstance(entry.fact, f.Cancelled) for entry in entries)
            assert state.status == ("cancelled" if ended else "running")
        assert sorted(seqs) == list(range(1, len(seqs) + 1))
        assert sorted(numbers) == list(range(1, len(numbers) + 1))
        assert set(acknowledged) <= set(numbers)
        await journal.close()

    asyncio.run(look())
    assert inspection.check(folder) == []


@pytest.mark.parametrize("seed", range(6))
def test_what_was_acknowledged_before_a_kill_is_there_and_nothing_has_a_hole(
    tmp_path: Path, seed: int
) -> None:
    draw, folder = random.Random(seed), tmp_path / "study"
    with subprocess.Popen(
        [sys.executable, str(CHILD), str(folder), str(draw.choice([1, 10, 200]))], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        time.sleep(draw.uniform(0.0, 0.4))
        child.kill()
        lines = [first, *child.stdout.readlines()]
    acknowledged = [int(line) for line in lines if line.endswith(b"\n")]
    assert acknowledged
    assert (folder / "study.lock").read_text(), "the note of the dead process is still there"
    assert_prefix(folder, acknowledged)
