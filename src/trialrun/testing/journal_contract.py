"""The journal contract: what every store does, as tests. A store is right when a subclass of this passes.

    class TestMine(JournalContract):
        async def opened(self, folder): return MyJournal(folder, clock=self.clock)
        async def reopened(self, journal): ...

The letters J1 to J4 are those of `core.ports.Journal`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from decimal import Decimal
from pathlib import Path

import pytest

from trialrun.core import facts as f
from trialrun.core.errors import StoreError
from trialrun.core.identity import text_hash
from trialrun.core.ports import Journal
from trialrun.core.state import TrialState
from trialrun.testing.clock import ManualClock
from trialrun.testing.made_facts import facts_in, finished, held, settled, started, write

HAIKU = "the journal writes\nwhat happened before it was\nseen by anyone"


class JournalContract(ABC):
    """Subclass as `class TestMine(JournalContract)` and say how the store is opened, opened again, and broken."""

    clock: ManualClock

    @abstractmethod
    async def opened(self, folder: Path) -> Journal:
        """A new, empty journal."""

    @abstractmethod
    async def reopened(self, journal: Journal) -> Journal:
        """The same store after `close`, as the next process finds it."""

    @abstractmethod
    async def killed(self, journal: Journal) -> Journal:
        """The same store after its process died without closing it."""

    @abstractmethod
    async def post(self, journal: Journal, kind: str, body: dict[str, object]) -> None:
        """Leave a wish, as another process does."""

    @abstractmethod
    def break_down(self, journal: Journal) -> None:
        """From now on nothing can be written any more."""

    @pytest.fixture
    async def journal(self, tmp_path: Path) -> AsyncGenerator[Journal, None]:
        self.clock = ManualClock()
        journal = await self.opened(tmp_path / "study")
        yield journal
        await journal.close()

    async def test_facts_of_some_kinds_come_back_across_trials_from_a_number_on(
        self, journal: Journal
    ) -> None:
        await write(journal, "t1", started(), held("1"))
        await write(journal, "t2", started(), held("1"), settled("1"))
        first = [entry async for entry in journal.since(0, "settled")]
        assert [(entry.trial, entry.fact) for entry in first] == [("t2", settled("1"))]
        await write(journal, "t1", settled("1"), finished())
        later = [entry async for entry in journal.since(first[0].seq, "settled", "released")]
        assert [(entry.trial, entry.fact) for entry in later] == [("t1", settled("1"))]
        everything = [entry.seq async for entry in journal.since(0, "started", "held", "settled", "finished")]
        assert everything == sorted(everything)
        assert len(everything) == 7

    async def test_more_facts_than_one_page_come_back_whole(self, journal: Journal) -> None:
        for number in range(1203):
            journal.append(f"t{number % 7}", [f.Ticked(at=str(number), now=number)])
        await journal.commit()
        found = [entry.fact async for entry in journal.since(3, "ticked")]
        assert found == [f.Ticked(at=str(number), now=number) for number in range(3, 1203)]

    # --- order and durability --------------------------------------------------------------------------------------

    async def test_j1_facts_come_back_in_the_order_in_which_they_were_appended(
        self, journal: Journal
    ) -> None:
        own: list[f.TrialFact] = [
            started(),
            held("1"),
            settled("1"),
            f.TurnBegan(at="2", turn=1),
            finished(n=3),
        ]
        for number, fact in enumerate(own):
            journal.append("t1", [fact])
            journal.append("t2", [f.Ticked(at=str(number), now=number)])
        await journal.commit()
        assert await facts_in(journal, "t1") == own
        first, second = await journal.facts_of("t1"), await journal.facts_of("t2")
        numbers = [entry.seq for pair in zip(first, second, strict=True) for entry in pair]
        assert numbers == sorted(set(numbers))
        assert all(entry.trial == "t1" for entry in first)

    async def test_j2_what_was_committed_is_there_for_the_next_process(self, journal: Journal) -> None:
        await write(journal, "t1", started(), held("1"))
        await journal.close()
        again = await self.reopened(journal)
        assert await facts_in(again, "t1") == [started(), held("1")]
        await write(again, "t1", settled("1"))
        assert await facts_in(again, "t1") == [started(), held("1"), settled("1")]
        await again.close()

    async def test_j2_what_was_committed_survives_the_death_of_the_process(self, journal: Journal) -> None:
        await write(journal, "t1", started(), held("1"))
        await write(journal, "t1", settled("1"))
        before = await journal.states(["t1"])
        journal.append("t1", [finished()])
        again = await self.killed(journal)
        assert await facts_in(again, "t1") == [started(), held("1"), settled("1")]
        assert await again.states(["t1"]) == before
        await write(again, "t1", finished())
        assert (await again.states(["t1"]))["t1"].status == "done"
        await again.close()

    async def test_j2_a_thousand_commits_at_once_are_all_durable(self, journal: Journal) -> None:
        async def one(number: int) -> None:
            journal.append(f"t{number}", [started(replicate=number)])
            await journal.commit()
            journal.append(f"t{number}", [finished(n=number)])
            await journal.commit()
            assert len(await journal.facts_of(f"t{number}")) == 2

        async with asyncio.TaskGroup() as group:
            for number in range(1000):
                group.create_task(one(number))
        assert (await journal.total()).by_status == {"done": 1000}

    async def test_j2_a_cancelled_wait_does_not_disturb_the_others(self, journal: Journal) -> None:
        async def one(number: int) -> None:
            journal.append(f"t{number}", [started()])
            await journal.commit()

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(20)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
        await journal.commit()
        assert len(await journal.states([f"t{number}" for number in range(20)])) == 20

    async def test_j3_after_a_failed_commit_nothing_later_is_accepted(self, journal: Journal) -> None:
        await write(journal, "t1", started(), held("1"))
        self.break_down(journal)

        async def store(text: str) -> None:
            journal.append("t1", [settled("1", text=text_hash(text))], {text_hash(text): text})
            await journal.commit()

        async def one(number: int) -> None:
            with pytest.raises(StoreError) as caught:
                await store(f"{number} {'x' * 50_000}")
            assert caught.value.fix

        async with asyncio.TaskGroup() as group:
            for number in range(10):
                group.create_task(one(number))
        with pytest.raises(StoreError):
            journal.append("t1", [finished()])
        with pytest.raises(StoreError):
            await journal.commit()
        # What was durable can still be read, and nothing else.
        assert await facts_in(journal, "t1") == [started(), held("1")]
        assert (await journal.states(["t1"]))["t1"].held_usd == Decimal("0.50")

    async def test_j4_a_read_shows_what_a_commit_covers(self, journal: Journal) -> None:
        journal.append("t1", [started()])
        journal.append(
            "t1", [f.Said(at="1", turn=1, party="a", text=text_hash(HAIKU))], {text_hash(HAIKU): HAIKU}
        )
        await journal.commit()
        assert len(await journal.facts_of("t1")) == 2
        assert await journal.texts([text_hash(HAIKU)]) == {text_hash(HAIKU): HAIKU}
        assert list(await journal.states(["t1"])) == ["t1"]

    async def test_a_commit_of_nothing_is_done_at_once(self, journal: Journal) -> None:
        await journal.commit()
        await journal.commit()
        assert await journal.facts_of("") == []

    async def test_a_fact_that_is_no_plain_data_is_refused_whole(self, journal: Journal) -> None:
        with pytest.raises(TypeError):
            journal.append("t1", [started(), finished(answer=object())])
        await journal.commit()
        assert await journal.facts_of("t1") == []
        assert await journal.states(["t1"]) == {}

    async def test_facts_carry_the_time_of_their_append(self, journal: Journal) -> None:
        await write(journal, "t1", started())
        await self.clock.advance(2.125)
        await write(journal, "t1", finished())
        one, two = await journal.facts_of("t1")
        assert two.at - one.at == 2.125
        state = (await journal.states(["t1"]))["t1"]
        assert (state.started_at, state.ended_at) == (one.at, two.at)

    async def test_facts_of_the_study_stand_apart_from_those_of_trials(self, journal: Journal) -> None:
        opened = f.Opened(session="s1", pid=1, host="here", version="1")
        closed = f.Closed(session="s1", reason="done")
        journal.append("", [opened])
        journal.append("t1", [started()])
        journal.append("", [closed])
        await journal.commit()
        assert await facts_in(journal, "") == [opened, closed]
        assert (await journal.total()).by_status == {"running": 1}

    async def test_after_close_nothing_is_accepted_and_closing_again_is_nothing(
        self, journal: Journal
    ) -> None:
        journal.append("t1", [started()])
        await journal.close()
        with pytest.raises(StoreError):
            journal.append("t1", [finished()])
        await journal.close()
        again = await self.reopened(journal)
        assert await facts_in(again, "t1") == [started()], "close commits what is left"
        await again.close()

    # --- texts -----------------------------------------------------------------------------------------------------

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "plain",
            "naïve ☃ 🧪",
            "a\x00b",
            "lone \ud800 surrogate",
            "x" * 1_000_000,
            '{"json": "\\u0000"}',
        ],
        ids=["empty", "plain", "unicode", "zero", "surrogate", "long", "escapes"],
    )
    async def test_a_text_comes_back_as_it_was(self, journal: Journal, text: str) -> None:
        name = text_hash(text)
        journal.append("t1", [f.Said(at="1", turn=1, party="a", text=name)], {name: text})
        await journal.commit()
        assert await journal.texts([name, name]) == {name: text}
        await journal.close()
        again = await self.reopened(journal)
        assert await again.texts([name]) == {name: text}
        await again.close()

    async def test_bytes_that_are_no_text_come_back_as_a_string_that_lost_nothing(
        self, journal: Journal
    ) -> None:
        image = bytes(range(256))
        name = text_hash(image)
        journal.append("t1", [started()], {name: image})
        await journal.commit()
        assert (await journal.texts([name]))[name].encode("utf-8", "surrogateescape") == image

    async def test_unknown_texts_are_left_out(self, journal: Journal) -> None:
        assert await journal.texts([text_hash("never stored"), "no hash at all", ""]) == {}
        assert await journal.texts([]) == {}

    async def test_many_texts_come_in_one_go(self, journal: Journal) -> None:
        texts = {text_hash(str(number)): str(number) for number in range(5000)}
        journal.append("t1", [started()], texts)
        journal.append("t2", [started()], texts)
        await journal.commit()
        assert await journal.texts(texts) == texts

    # --- states ----------------------------------------------------------------------------------------------------

    async def test_trials_that_never_began_are_left_out(self, journal: Journal) -> None:
        await write(journal, "t1", started())
        assert list(await journal.states(["t0", "t1", "t2"])) == ["t1"]
        assert await journal.states([]) == {}

    async def test_a_trial_that_was_looked_for_too_early_is_followed_like_any_other(
        self, journal: Journal
    ) -> None:
        assert await journal.states(["t1", "t2"]) == {}
        await write(journal, "t1", started(), finished(score=1))
        assert (await journal.states(["t1"]))["t1"].status == "done"
        await write(journal, "t1", f.Superseded(reason="the plan changed"))
        await write(journal, "t1", started())
        state = (await journal.states(["t1", "t2"]))["t1"]
        assert (state.status, state.generation) == ("running", 1), "what it was before counts"

    async def test_a_state_follows_its_trial_through_every_ending(self, journal: Journal) -> None:
        steps: list[tuple[f.TrialFact, str]] = [
            (started(), "running"),
            (f.Waiting(waiting_for="human:q1"), "parked"),
            (f.Answered(at="q1", answer="yes"), "running"),
            (f.StoppedByBudget(level="study"), "stopped_by_budget"),
            (f.Failed(boundary="provider", error="Unavailable", reason="down"), "failed"),
            (f.Retried(reason="again"), "running"),
            (f.TimedOut(scope="trial", limit_s=3.0, reason="too long"), "timed_out"),
            (f.Superseded(reason="the plan changed"), "planned"),
            (started(), "running"),
            (f.Cancelled(reason="by hand"), "cancelled"),
            (f.Retried(reason="again"), "running"),
            (finished(score=(1, 2), note=None), "done"),
        ]
        state = TrialState(id="t1")
        for fact, status in steps:
            await write(journal, "t1", fact)
            state = (await journal.states(["t1"]))["t1"]
            assert state.status == status
            assert [state async for state in journal.with_status(status)] == [state]
            assert (await journal.total()).by_status == {status: 1}
        assert state.values == {"score": [1, 2], "note": None}, "as it will be read by everybody later"
        assert state.generation == 1

    async def test_a_state_is_the_same_after_closing(self, journal: Journal) -> None:
        await write(
            journal, "open", started(), held("1"), held("2", "0.0000000000001"), settled("1", "1E-13")
        )
        await write(journal, "parked", started(), held("1", None), f.Waiting(waiting_for="batch:b1"))
        await write(
            journal,
            "doubtful",
            started(),
            held("1", "0.1"),
            f.Doubted(at="1", attempt=1, error="E", reason="?"),
            f.Failed(boundary="provider", error="E", reason="lost"),
        )
        await write(journal, "unknown", started(), held("1"), settled("1", None), finished(text="é", n=1.5))
        await write(journal, "fork", f.Forked(source="open", turn=2, overrides={"a": [1]}))
        names = ["open", "parked", "doubtful", "unknown", "fork"]
        before, total = await journal.states(names), await journal.total()
        await journal.close()
        again = await self.reopened(journal)
        assert await again.states(names) == before
        assert await again.total() == total
        # A hold that was read back can still be settled.
        await write(again, "doubtful", f.Confirmed(at="1", attempt=1, cost_usd=Decimal("0.07")))
        state = (await again.states(["doubtful"]))["doubtful"]
        assert (state.held_usd, state.spent_usd, state.doubts) == (0, Decimal("0.07"), 0)
        await write(again, "parked", settled("1"), finished())
        assert (await again.states(["parked"]))["parked"].held_usd == 0
        await again.close()

    async def test_a_state_belongs_to_its_reader(self, journal: Journal) -> None:
        await write(journal, "t1", started(), held("1"))
        mine = (await journal.states(["t1"]))["t1"]
        mine.apply(finished(), 0.0)
        mine.holds.clear()
        assert (await journal.states(["t1"]))["t1"].holds == {("1", 1): Decimal("0.50")}

    async def test_with_status_gives_the_named_ones_or_all(self, journal: Journal) -> None:
        for number in range(30):
            await write(journal, f"t{number}", started(replicate=number))
            if number % 3:
                await write(journal, f"t{number}", finished() if number % 3 == 1 else f.Cancelled(reason=""))
        assert {state.id async for state in journal.with_status("done", "cancelled")} == {
            f"t{number}" for number in range(30) if number % 3
        }
        assert len([state async for state in journal.with_status()]) == 30
        assert [state async for state in journal.with_status("parked")] == []

    async def test_trials_can_be_taken_up_while_they_are_listed(self, journal: Journal) -> None:
        for number in range(1200):
            journal.append(f"t{number}", [started(replicate=number), f.Cancelled(reason="")])
        await journal.commit()
        taken: list[str] = []
        async for state in journal.with_status("cancelled", "running"):
            taken.append(state.id)
            journal.append(state.id, [f.Retried(reason="again")])
            if len(taken) % 100 == 0:
                await journal.commit()
        await journal.commit()
        assert len(taken) == len(set(taken)) == 1200
        assert (await journal.total()).by_status == {"running": 1200}

    # --- sums ------------------------------------------------------------------------------------------------------

    async def test_sums_are_exact_by_condition_and_without_forks(self, journal: Journal) -> None:
        for number in range(7):
            await write(
                journal,
                f"w{number}",
                started("warm", number),
                held("1", "0.3"),
                settled("1", "0.1"),
                finished(),
            )
        await write(journal, "n0", started("neutral"), held("1", "0.3"), held("2", None))
        await write(journal, "n1", started("neutral"), held("1"), settled("1", None), finished())
        await write(
            journal, "f0", f.Forked(source="w0", turn=1, overrides={}), started("warm"), held("1", "5")
        )
        neutral, warm = await journal.tallies()
        assert (warm.condition, warm.by_status, warm.spent_usd) == ("warm", {"done": 7}, Decimal("0.7"))
        assert (warm.held_usd, warm.calls, warm.tokens_in, warm.tokens_out) == (0, 7, 700, 70)
        assert (neutral.condition, neutral.by_status) == ("neutral", {"running": 1, "done": 1})
        assert (neutral.held_usd, neutral.unknown_costs) == (Decimal("0.8"), 1)
        total = await journal.total()
        assert (total.condition, total.held_usd, total.spent_usd) == ("", Decimal("5.8"), Decimal("0.7"))
        assert total.by_status == {"done": 8, "running": 2}

    async def test_the_sums_of_nothing_are_zero(self, journal: Journal) -> None:
        assert await journal.tallies() == []
        total = await journal.total()
        assert (total.by_status, total.spent_usd, total.held_usd, total.calls) == ({}, 0, 0, 0)

    async def test_money_of_a_trial_that_began_anew_stays_counted(self, journal: Journal) -> None:
        await write(journal, "t1", started(), held("1"), settled("1", "0.2"), finished())
        await write(
            journal, "t1", f.Superseded(reason="anew"), started(), held("1"), settled("1", "0.3"), finished()
        )
        assert (await journal.total()).spent_usd == Decimal("0.5")

    # --- other processes -------------------------------------------------------------------------------------------

    async def test_a_wish_is_seen_until_it_is_taken(self, journal: Journal) -> None:
        assert await journal.commands() == []
        await self.post(journal, "stop", {})
        await self.post(journal, "answer", {"trial": "t1", "at": "q1", "answer": "ja ☃"})
        stop, answer = await journal.commands()
        assert (stop.kind, answer.kind, answer.body["answer"]) == ("stop", "answer", "ja ☃")
        await journal.take(stop, answer="stopping")
        assert await journal.commands() == [answer]
        await journal.take(answer, answer="taken")
        await journal.take(answer, answer="taken twice")
        assert await journal.commands() == []

    async def test_a_heartbeat_is_plain_data(self, journal: Journal) -> None:
        await journal.heartbeat({"done": 3, "spent_usd": Decimal("1.5"), "waits": ("pacing",)})
        await journal.heartbeat({"done": 4})

    def test_a_journal_can_be_used_from_one_event_loop_after_another(self, tmp_path: Path) -> None:
        self.clock = ManualClock()
        journal = asyncio.run(self.opened(tmp_path / "study"))
        for number in range(3):
            asyncio.run(write(journal, "t1", held(str(number))))
        assert len(asyncio.run(journal.facts_of("t1"))) == 3
        asyncio.run(journal.close())
