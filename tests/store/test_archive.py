"""A study as tables: what each row says of calls, forks, fresh beginnings, and of a run that goes on."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from trialrun.core import facts as f
from trialrun.core.calls import Message, Request, Usage
from trialrun.core.envelope import open_
from trialrun.core.errors import StoreCorrupt, UsageError
from trialrun.core.identity import text_hash
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal
from trialrun.testing.clock import ManualClock
from trialrun.testing.made_facts import finished, held, settled, started, write

CLOCK = ManualClock()


@pytest.fixture
async def journal(tmp_path: Path) -> SqliteJournal:
    return SqliteJournal.open(tmp_path, clock=CLOCK)


@pytest.fixture
def archive(tmp_path: Path, journal: SqliteJournal) -> Iterator[Archive]:
    with Archive(tmp_path) as archive:
        yield archive
    journal.abandon()


def say(journal: SqliteJournal, trial: str, at: str, text: str, *, turn: int = 1, **more: object) -> None:
    """Somebody says something."""
    name = text_hash(text)
    said = f.Said(at=at, turn=turn, party="a", text=name, **more)  # pyright: ignore[reportArgumentType]  # a test's own values
    journal.append(trial, [said], {name: text})


async def test_messages_are_numbered_in_each_trial_and_trials_come_in_planned_order(
    journal: SqliteJournal, archive: Archive
) -> None:
    for trial, planned in (("late", 3), ("early", 1), ("middle", 2)):
        journal.append(trial, [started(planned=planned)])
    for turn in (1, 2):
        for trial in ("late", "early", "middle"):
            say(
                journal, trial, f"s{turn}", f"{trial} {turn}", turn=turn, audience=("b",) if turn == 2 else ()
            )
    await journal.commit()
    rows = list(archive.messages())
    assert [(row.trial, row.number, row.text) for row in rows] == [
        (trial, turn - 1, f"{trial} {turn}") for trial in ("early", "middle", "late") for turn in (1, 2)
    ]
    assert [row.audience for row in rows[:2]] == [(), ("b",)]
    assert [state.id for state in archive.trials()] == ["early", "middle", "late"]
    assert [row.text for row in archive.messages(["middle"])] == ["middle 1", "middle 2"]
    assert list(archive.messages([])) == []


async def test_more_trials_than_a_page_come_each_once(journal: SqliteJournal, archive: Archive) -> None:
    for number in range(1100):
        journal.append(
            f"t{number}", [started(planned=number // 2), f.Measured(at="m", name="n", value=number)]
        )
    await journal.commit()
    assert sorted(row.value for row in archive.measures()) == list(range(1100))  # pyright: ignore[reportArgumentType]  # numbers only
    assert len({state.id for state in archive.trials()}) == 1100
    assert len(list(archive.measures([f"t{number}" for number in range(0, 1100, 2)]))) == 550


async def test_every_attempt_is_a_row_with_its_own_ending(journal: SqliteJournal, archive: Archive) -> None:
    usage = Usage(tokens_in=10, tokens_out=5, tokens_cached=3, tokens_reasoning=2)
    await write(
        journal,
        "t",
        started(),
        held("1", attempt=1),
        f.Released(at="1", attempt=1, error="Throttled", reason="busy", status=429),
        held("1", attempt=2),
        f.Doubted(at="1", attempt=2, error="CallTimedOut", reason="late"),
        held("1", attempt=3),
        f.Settled(
            at="1",
            attempt=3,
            cost_usd=Decimal("0.1"),
            usage=usage,
            model="m-2",
            latency_s=0.5,
            request_id="r",
        ),
        held("2"),
        f.Doubted(at="2", attempt=1, error="CallTimedOut", reason="late"),
        f.Confirmed(at="2", attempt=1, cost_usd=Decimal("0.3")),
        held("3"),
        settled("3", None, unreadable="no JSON"),
        held("4", None),
    )
    rows = {(row.at, row.attempt): row for row in archive.calls()}
    assert [row.status for row in rows.values()] == [
        "released", "in_doubt", "settled", "confirmed", "settled", "open",
    ]  # fmt: skip
    assert (rows["1", 1].error, rows["1", 1].http_status, rows["1", 1].cost_usd) == ("Throttled", 429, None)
    paid = rows["1", 3]
    assert (paid.cost_usd, paid.tokens_in, paid.tokens_cached, paid.tokens_reasoning) == (
        Decimal("0.1"),
        10,
        3,
        2,
    )
    assert (paid.model, paid.answered_by, paid.latency_s, paid.request_id) == ("x/m", "m-2", 0.5, "r")
    assert rows["2", 1].cost_usd == Decimal("0.3")
    assert (rows["3", 1].cost_usd, rows["3", 1].unreadable) == (None, "no JSON")
    assert (rows["4", 1].ceiling_usd, rows["4", 1].tokens_in, rows["4", 1].ended_at) == (None, None, None)


async def test_what_was_superseded_is_gone_from_the_tables_and_still_among_the_calls(
    journal: SqliteJournal, archive: Archive
) -> None:
    journal.append("t", [started(), held("1"), settled("1"), f.Measured(at="m", name="n", value=1)])
    say(journal, "t", "s", "old words")
    await write(journal, "t", f.Superseded(reason="the plan changed"), started(), held("1"), settled("1"))
    say(journal, "t", "s", "new words")
    await write(journal, "t", f.Measured(at="m", name="n", value=2), finished())
    assert [row.text for row in archive.messages()] == ["new words"]
    assert [row.value for row in archive.measures()] == [2]
    assert [row.superseded for row in archive.calls()] == [True, False]
    assert [state.generation for state in archive.trials("done")] == [1]
    assert archive.total().spent_usd == Decimal("0.4")


async def test_a_forks_tables_are_whole_and_its_calls_are_its_own(
    journal: SqliteJournal, archive: Archive
) -> None:
    journal.append("t", [started(), f.TurnBegan(at="1", turn=1), held("1"), settled("1")])
    say(journal, "t", "s1", "first", turn=1)
    journal.append(
        "t", [f.Measured(at="m1", name="mood", value=1, turn=1), f.TurnBegan(at="2", turn=2), held("2")]
    )
    say(journal, "t", "s2", "second", turn=2)
    await write(journal, "t", settled("2"), finished())
    await write(journal, "t-f1", f.Forked(source="t", turn=2, overrides={"x": 1}))
    await write(journal, "t-f1", started(), f.TurnBegan(at="2", turn=2), held("2"), settled("2"))
    say(journal, "t-f1", "s2", "otherwise", turn=2)
    await write(journal, "t-f1", finished())
    await write(journal, "t-f2", f.Forked(source="t-f1", turn=3, overrides={"x": 2}), started())
    say(journal, "t-f2", "s3", "and on", turn=3)
    await journal.commit()

    def words(trial: str) -> list[tuple[int, str]]:
        return [(row.number, row.text) for row in archive.messages() if row.trial == trial]

    assert words("t") == [(0, "first"), (1, "second")]
    assert words("t-f1") == [(0, "first"), (1, "otherwise")]
    assert words("t-f2") == [(0, "first"), (1, "otherwise"), (2, "and on")]
    assert [(row.trial, row.value) for row in archive.measures()] == [("t", 1), ("t-f1", 1), ("t-f2", 1)]
    assert [(row.trial, row.at) for row in archive.calls()] == [("t", "1"), ("t", "2"), ("t-f1", "2")]
    assert [tally.by_status for tally in archive.tallies()] == [{"done": 1}]
    assert archive.total().by_status == {"done": 2, "running": 1}


def request(*texts: tuple[str, str]) -> Request:
    messages = tuple(Message(role, text) for role, text in texts)  # pyright: ignore[reportArgumentType]  # a test's own roles
    return Request(model="x/m", messages=messages, max_tokens=77, temperature=0.5, stop=("END",))


def asked(
    at: str, new: list[tuple[str, str]], *, base: str = "", keep: int = 0
) -> tuple[f.Held, dict[str, str | bytes]]:
    """The intent to send a request that is written as a difference."""
    add = [(role, text_hash(text)) for role, text in new]
    delta = f.RequestDelta(add=add, base=base, keep=keep, max_tokens=77, temperature=0.5, stop=("END",))  # pyright: ignore[reportArgumentType]  # a test's own roles
    held = f.Held(at=at, attempt=1, model="x/m", party="a", fingerprint="", ceiling_usd=None, request=delta)
    return held, {text_hash(text): text for _, text in new}


async def test_a_request_is_put_together_from_its_differences(
    journal: SqliteJournal, archive: Archive
) -> None:
    talk = [("system", "You are calm."), ("user", "Hello ☃"), ("assistant", "Hi"), ("user", "How are you?")]
    for at, new, base, keep in (
        ("1", talk[:2], "", 0),
        ("2", talk[2:], "1", 2),
        ("3", [("user", "Summarise.")], "2", 1),
    ):
        fact, texts = asked(at, new, base=base, keep=keep)
        journal.append("t", [fact], texts)
    await journal.commit()
    assert archive.request_of("t", "1") == request(*talk[:2])
    assert archive.request_of("t", "2") == request(*talk)
    assert archive.request_of("t", "3") == request(talk[0], ("user", "Summarise."))
    with pytest.raises(UsageError, match="no answered call at `9`"):
        archive.request_of("t", "9")


async def test_a_forks_request_may_build_on_one_of_its_source(
    journal: SqliteJournal, archive: Archive
) -> None:
    fact, texts = asked("1", [("user", "Hello")])
    journal.append("t", [f.TurnBegan(at="t1", turn=1), fact, f.TurnBegan(at="t2", turn=2)], texts)
    fact, texts = asked("2", [("assistant", "Hi"), ("user", "Bye")], base="1", keep=1)
    journal.append("t-f1", [f.Forked(source="t", turn=2, overrides={}), fact], texts)
    await journal.commit()
    assert archive.request_of("t-f1", "2") == request(("user", "Hello"), ("assistant", "Hi"), ("user", "Bye"))


async def test_a_raw_reply_gets_its_text_back(journal: SqliteJournal, archive: Archive) -> None:
    text = 'A longer "answer"\nwith é and \\ in it'
    body = b'{"id": "r1", "text": "A longer \\"answer\\"\\nwith \xc3\xa9 and \\\\ in it", "n": 1}'
    stored = open_(body, text)
    assert stored != body
    texts: dict[str, str | bytes] = {
        text_hash(text): text,
        text_hash(stored): stored,
        text_hash(b"{\xff"): b"{\xff",
    }
    bad = settled("1", attempt=1, raw=text_hash(b"{\xff"), unreadable="no JSON")
    good = settled("1", attempt=2, text=text_hash(text), raw=text_hash(stored))
    journal.append("t", [held("1"), bad, held("1", attempt=2), good], texts)
    await journal.commit()
    assert archive.raw_of("t", "1") == body
    assert archive.raw_of("t", "1", 2) == body
    assert archive.raw_of("t", "1", 1) == b"{\xff"
    with pytest.raises(UsageError):
        archive.raw_of("t", "2")


async def test_questions_states_and_artefacts(journal: SqliteJournal, archive: Archive) -> None:
    image = bytes(range(256))
    journal.append(
        "t",
        [
            started(),
            f.Asked(at="q1", turn=1, party="human", question="Is it so?", options=("yes", "no")),
            f.Answered(at="q1", answer="no", by="kim"),
            f.Asked(at="q2", turn=2, party="human", question="Why?"),
            f.StateLogged(at="h1", turn=1, party="client", values={"trust": 0.5, "beliefs": ["x"]}),
            f.ArtefactKept(
                at="k1", turn=2, name="plot", content=text_hash(image), media_type="image/png", size_bytes=256
            ),
        ],
        {text_hash(image): image},
    )
    await journal.commit()
    closed, open_question = archive.questions()
    assert (closed.question, closed.options, closed.answer, closed.by) == (
        "Is it so?",
        ("yes", "no"),
        "no",
        "kim",
    )
    assert (open_question.question, open_question.answer, open_question.answered_at) == ("Why?", None, None)
    (state,) = archive.states()
    assert (state.party, state.values) == ("client", {"trust": 0.5, "beliefs": ["x"]})
    (artefact,) = archive.artefacts()
    assert (artefact.name, artefact.media_type) == ("plot", "image/png")
    assert archive.content_of(artefact.content) == image
    with pytest.raises(StoreCorrupt):
        archive.content_of(text_hash("never stored"))


async def test_a_running_study_reads_like_a_finished_one(journal: SqliteJournal, archive: Archive) -> None:
    assert archive.live() is None
    assert list(archive.trials()) == []
    assert archive.total().by_status == {}
    holder = archive.holder()
    assert holder is not None
    for number in range(50):
        await write(journal, f"t{number}", started(replicate=number), held("1"), settled("1"))
        await write(journal, f"t{number}", f.TurnBegan(at="b", turn=3), *([finished()] if number % 2 else []))
    in_file = {state.id: state for state in archive.trials()}
    assert in_file == await journal.states(list(in_file))
    assert archive.total() == await journal.total()
    assert archive.tallies() == await journal.tallies()
    await journal.heartbeat({"done": 25})
    live = archive.live()
    assert live is not None
    assert (live["done"], live["host"]) == (25, holder.host)
