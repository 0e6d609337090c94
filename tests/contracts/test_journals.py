"""The journal contract on every store, and a machine that holds the file against the memory, step by step."""

import asyncio
import random
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from trialrun.core import facts as f
from trialrun.core.calls import Usage
from trialrun.core.identity import text_hash
from trialrun.core.ports import Journal
from trialrun.core.state import TrialState
from trialrun.store import journal as sqlite
from trialrun.store.inbox import post
from trialrun.store.journal import SqliteJournal
from trialrun.testing.clock import ManualClock
from trialrun.testing.faults import Crash, CrashingJournal, Edge
from trialrun.testing.journal_contract import JournalContract
from trialrun.testing.made_facts import finished, held, settled, started, write
from trialrun.testing.memory import MemoryJournal


def fill_the_disk(journal: SqliteJournal) -> None:
    """No page more than there are."""
    journal._writing.run(f"PRAGMA max_page_count = {journal._writing.value('PRAGMA page_count')}")


class TestSqlite(JournalContract):
    folder: Path

    async def opened(self, folder: Path) -> Journal:
        self.folder = folder
        return SqliteJournal.open(folder, clock=self.clock)

    async def reopened(self, journal: Journal) -> Journal:
        return SqliteJournal.open(self.folder, clock=self.clock)

    async def killed(self, journal: Journal) -> Journal:
        assert isinstance(journal, SqliteJournal)
        journal.abandon()
        return await self.reopened(journal)

    async def post(self, journal: Journal, kind: str, body: dict[str, object]) -> None:
        post(self.folder, kind, body, clock=self.clock)

    def break_down(self, journal: Journal) -> None:
        assert isinstance(journal, SqliteJournal)
        fill_the_disk(journal)


class TestMemory(JournalContract):
    async def opened(self, folder: Path) -> Journal:
        return MemoryJournal(clock=self.clock)

    async def reopened(self, journal: Journal) -> Journal:
        assert isinstance(journal, MemoryJournal)
        journal.reopen()
        return journal

    async def killed(self, journal: Journal) -> Journal:
        assert isinstance(journal, MemoryJournal)
        journal.abandon()
        return await self.reopened(journal)

    async def post(self, journal: Journal, kind: str, body: dict[str, object]) -> None:
        assert isinstance(journal, MemoryJournal)
        journal.post(kind, body)

    def break_down(self, journal: Journal) -> None:
        assert isinstance(journal, MemoryJournal)
        journal.break_down()


class TestCrashing(JournalContract):
    """A journal that could die, and does not, is a journal."""

    inner: MemoryJournal

    async def opened(self, folder: Path) -> Journal:
        self.inner = MemoryJournal(clock=self.clock)
        return self._around()

    def _around(self) -> Journal:
        return CrashingJournal(self.inner, write=1_000_000, edge="after")

    async def reopened(self, journal: Journal) -> Journal:
        await self.inner.close()
        self.inner.reopen()
        return self._around()

    async def killed(self, journal: Journal) -> Journal:
        return self._around()

    async def post(self, journal: Journal, kind: str, body: dict[str, object]) -> None:
        self.inner.post(kind, body)

    def break_down(self, journal: Journal) -> None:
        self.inner.break_down()


@pytest.mark.parametrize(("edge", "left"), [("before", 1), ("after", 2)])
async def test_a_crash_comes_at_the_named_write_and_lasts(edge: Edge, left: int) -> None:
    inner = MemoryJournal(clock=ManualClock())
    journal = CrashingJournal(inner, write=2, edge=edge)
    await write(journal, "t", started())
    await journal.commit()
    assert journal.writes == 1, "a commit of nothing is no write"
    with pytest.raises(Crash):
        await write(journal, "t", held("1"))
    assert len(await inner.facts_of("t")) == left
    for use in (journal.commit, journal.total, lambda: write(journal, "t", settled("1"))):
        with pytest.raises(Crash):
            await use()
    await journal.close()
    await write(CrashingJournal(inner, write=9, edge=edge), "t", finished())
    assert len(await inner.facts_of("t")) == left + 1


async def test_many_trials_that_commit_one_by_one_share_batches(tmp_path: Path) -> None:
    journal = SqliteJournal.open(tmp_path, clock=ManualClock())
    draw = random.Random(1)

    async def one(trial: str) -> None:
        for number in range(4):
            await write(journal, trial, held(str(number)))
            await asyncio.sleep(draw.uniform(0.0, 0.1))

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(300):
            group.create_task(one(f"t{number}"))
    assert journal.batches <= (time.perf_counter() - began) / 0.004 + 3
    assert (await journal.total()).held_usd == 600
    await journal.close()


async def test_a_few_trials_are_not_held_up(tmp_path: Path) -> None:
    journal = SqliteJournal.open(tmp_path, clock=ManualClock())
    for number in range(200):
        await write(journal, f"t{number % 5}", held(str(number)))
    assert journal.batches == 200
    await journal.close()


def test_the_facts_that_are_not_folded_change_no_state() -> None:
    examples: list[f.TrialFact] = [
        f.Said(at="1", turn=9, party="a", text="0" * 32),
        f.Measured(at="1", name="n", value=1, turn=9),
        f.StateLogged(at="1", turn=9, party="a", values={}),
        f.ArtefactKept(at="1", name="n", content="0" * 32, media_type="text/plain", size_bytes=1, turn=9),
        f.Rated(at="1", item="i", value=9),
        f.Ticked(at="1", now=9.0),
        f.ActBegan(at="1", name="n", turn=9),
        f.ActEnded(at="1", name="n"),
    ]
    assert {type(fact) for fact in examples} == sqlite.SILENT
    state = TrialState(id="t")
    for fact in examples:
        state.apply(fact, 1.0)
    assert state == TrialState(id="t")


# --- the machine -------------------------------------------------------------------------------------------------

TRIALS = [f"t{number}" for number in range(5)]
CONDITIONS = ["warm", "neutral"]
STATUSES = ["planned", "running", "parked", "done", "failed", "timed_out", "cancelled", "stopped_by_budget"]
at = st.sampled_from(["1", "2", "b1.2"])
attempt = st.integers(1, 2)
usd = st.decimals(0, 1000, places=12, allow_nan=False)
words = st.text(max_size=8).filter(lambda text: text.isprintable())
turn = st.integers(0, 5)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)
usage = st.builds(Usage, tokens_in=st.integers(0, 9999), tokens_out=st.integers(0, 9999))
texts = st.sampled_from(["", "one", "two", "three ☃"])
facts = st.one_of(
    st.builds(
        lambda condition, replicate, planned: f.Started(
            condition=condition,
            levels={"tone": condition},
            replicate=replicate,
            block=0,
            planned=planned,
            actual=0,
            spec="",
        ),
        st.sampled_from(CONDITIONS),
        st.integers(0, 9),
        st.integers(0, 99),
    ),
    st.builds(
        f.Held,
        at=at,
        attempt=attempt,
        model=words,
        party=words,
        fingerprint=words,
        ceiling_usd=st.none() | usd,
    ),
    st.builds(f.Settled, at=at, attempt=attempt, cost_usd=st.none() | usd, usage=st.none() | usage),
    st.builds(f.Released, at=at, attempt=attempt, error=words, reason=words),
    st.builds(f.Doubted, at=at, attempt=attempt, error=words, reason=words),
    st.builds(f.Confirmed, at=at, attempt=attempt, cost_usd=usd),
    st.builds(
        f.Forked,
        source=st.sampled_from(TRIALS),
        turn=turn,
        overrides=st.dictionaries(words, plain, max_size=2),
    ),
    st.builds(f.Superseded, reason=words),
    st.builds(f.Retried, reason=words),
    st.builds(f.Waiting, waiting_for=st.just("human:1") | words),
    st.builds(f.Answered, at=at, answer=words),
    st.builds(f.TurnBegan, at=at, turn=turn),
    st.builds(f.Said, at=at, turn=turn, party=words, text=texts.map(text_hash)),
    st.builds(f.Finished, values=st.dictionaries(words, plain, max_size=3), end_reason=words),
    st.builds(f.Failed, boundary=words, error=words, reason=words),
    st.builds(f.TimedOut, scope=st.just("trial"), limit_s=st.just(1.5), reason=words),
    st.builds(f.Cancelled, reason=words),
    st.builds(f.StoppedByBudget, level=words),
)


class FileAgainstMemory(RuleBasedStateMachine):
    """Both stores get the same facts, closings and kills; at every commit both know the same."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory()
        self.clock = ManualClock()
        self.file = self._open()
        self.memory = MemoryJournal(clock=self.clock)

    def _open(self) -> SqliteJournal:
        return SqliteJournal.open(Path(self._folder.name), clock=self.clock)

    def teardown(self) -> None:
        sqlite._IN_MEMORY = 8192
        self.file.abandon()
        self._folder.cleanup()

    @initialize(limit=st.sampled_from([1, 3, 8192]))
    def memory_is_small(self, limit: int) -> None:
        sqlite._IN_MEMORY = limit

    @rule(trial=st.sampled_from(TRIALS), some=st.lists(facts, min_size=1, max_size=4), said=st.lists(texts))
    def append(self, trial: str, some: list[f.TrialFact], said: list[str]) -> None:
        named = {text_hash(text): text for text in said}
        for journal in (self.file, self.memory):
            journal.append(trial, some, named)

    @rule(seconds=st.floats(0.001, 1e6))
    def time_passes(self, seconds: float) -> None:
        asyncio.run(self.clock.advance(seconds))

    @rule()
    def commit(self) -> None:
        asyncio.run(self.file.commit())
        asyncio.run(self.memory.commit())
        self._both_know_the_same()

    @rule()
    def close_and_open(self) -> None:
        asyncio.run(self.file.close())
        asyncio.run(self.memory.close())
        self.file = self._open()
        self.memory.reopen()
        self._both_know_the_same()

    @rule()
    def kill_and_open(self) -> None:
        self.file.abandon()
        self.memory.abandon()
        self.file = self._open()
        self.memory.reopen()
        self._both_know_the_same()

    def _both_know_the_same(self) -> None:
        one, two = asyncio.run(_everything(self.file)), asyncio.run(_everything(self.memory))
        for what, in_file in one.items():
            assert in_file == two[what], what


async def _everything(journal: Journal) -> dict[str, object]:
    names = [text_hash(text) for text in ("", "one", "two", "three ☃")]
    known: dict[str, object] = {trial: await journal.facts_of(trial) for trial in TRIALS}
    known["states"] = await journal.states(TRIALS)
    known["texts"] = await journal.texts(names)
    known["tallies"] = await journal.tallies()
    known["total"] = await journal.total()
    for status in STATUSES:
        known[status] = sorted([state.id async for state in journal.with_status(status)])
    known["all"] = sorted([state.id async for state in journal.with_status()])
    return known


FileAgainstMemory.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestFileAgainstMemory = FileAgainstMemory.TestCase
