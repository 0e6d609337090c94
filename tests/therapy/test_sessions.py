"""Therapy sessions through the doors: who hears what, how they end, what is logged, and that they can be repeated."""

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.behaviour.support import OnePrice, run, states, tables
from tests.therapy.sessions import CASTS, client, far_end, logged, session, talk_of, texts, therapist
from trialrun.app.answers import answer, open_questions
from trialrun.app.clock import SystemClock
from trialrun.app.exits import Exit
from trialrun.app.forks import fork
from trialrun.app.previewing import calls_a_turn, preview
from trialrun.app.running import Options
from trialrun.app.verifying import verify
from trialrun.core.calls import Call, Parsed
from trialrun.procedures.therapy.actors import SILENCE, bare
from trialrun.procedures.therapy.registry import METHODS
from trialrun.providers.rehearsal.provider import RehearsalProvider
from trialrun.store.archive import Archive
from trialrun.store.journal import SqliteJournal
from trialrun.testing.faults import Crash, CrashingJournal
from trialrun.testing.scripted import Scripted


async def test_a_turn_is_an_utterance_of_the_therapist_and_an_answer(tmp_path: Path):
    provider = far_end()
    plan = session(tmp_path)
    assert (await run(plan, provider)).exit is Exit.DONE
    assert talk_of(plan) == [
        (party, f"{party} says {turn}") for turn in (1, 2, 3) for party in ("therapist", "client")
    ]
    (state,) = states(plan).values()
    assert (state.end_reason, state.values, state.turns) == ("max_turns", {"turns": 3}, 3)
    first, answer_ = provider.calls[:2]
    assert "Mara has come in" in first.request.messages[-1].text
    assert answer_.request.messages[1].text.startswith("therapist says 1")


async def test_the_therapist_alone_is_told_how_many_turns_are_left(tmp_path: Path):
    provider = far_end()
    plan = session(tmp_path, settings={"remind_turns": 2})
    await run(plan, provider)
    told = [texts(call) for call in provider.calls if call.party == "therapist"]
    assert ["turns left" in text for text in told] == [False, True, True]
    assert "turns left, this one included: 1." in told[2]
    assert "included: 2." not in told[2], "a reminder is in no history"
    assert not any("turns left" in texts(call) for call in provider.calls if call.party == "client")
    assert not any("turns left" in text for _, text in talk_of(plan))


@pytest.mark.parametrize(
    ("said", "kept"),
    [("END", 4), ("exit", 4), ("It was good to talk.\n[END]", 5)],
)
async def test_an_end_word_of_the_therapist_ends_it_and_is_no_part_of_the_talk(
    tmp_path: Path, said: str, kept: int
):
    provider = far_end(lambda call: said if call.party == "therapist" and call.turn == 3 else "Well.")
    plan = session(tmp_path, settings={"max_turns": 9})
    await run(plan, provider)
    (state,) = states(plan).values()
    assert (state.end_reason, state.values["turns"]) == ("ended_by:therapist", 2)
    talk = [text for _, text in talk_of(plan)]
    assert len(talk) == kept
    assert not {"END", "exit", "[END]"} & set(" ".join(talk).split())


async def test_a_name_before_an_utterance_is_taken_off_and_silence_is_written_down(tmp_path: Path):
    said = {"therapist": "Therapist: How are you?", "client": "**Client:** Mara: Bad. Note: worse."}
    plan = session(tmp_path / "named")
    await run(plan, far_end(lambda call: said[call.party]))
    assert talk_of(plan)[:2] == [("therapist", "How are you?"), ("client", "Bad. Note: worse.")]
    plan = session(tmp_path / "silent")
    assert (await run(plan, far_end(lambda call: "" if call.party == "client" else "Hm?"))).exit is Exit.DONE
    assert talk_of(plan)[1] == ("client", SILENCE)
    assert bare("Clients: a word of its own") == "Clients: a word of its own"


async def test_directions_are_in_one_request_and_in_no_history(tmp_path: Path):
    provider = far_end()
    plan = session(tmp_path, one=client("consistentMI"), settings={"max_turns": 4})
    await run(plan, provider)
    replies = [call for call in provider.calls if call.party == "client" and call.purpose == "reply"]
    assert len(replies) == 4
    for call in replies:
        directed = [message for message in call.request.messages if "[Stage direction" in message.text]
        assert directed == [call.request.messages[-1]]
    beside = [call for call in provider.calls if call.party == "client" and call.request.schema]
    assert beside
    assert not any("[Stage direction" in texts(call) for call in beside), (
        "classifiers read the talk as it was"
    )
    assert not any("[Stage direction" in text for _, text in talk_of(plan))


@pytest.mark.parametrize(
    ("kept", "echo"),
    [
        ("Well.", lambda text: f"Well.\n\n{text}"),
        ("Well.\n\nAnd so on.", lambda text: f"Well.\n\n{text}\n\nAnd so on."),
        ("I do. [He laughs]", lambda text: f"{text}\nI do. [He laughs]"),
        ("Well.", lambda text: f"Well. {text[: len(text) // 2]}"),
        (SILENCE, lambda text: text),
    ],
    ids=["after", "between", "before", "cut", "alone"],
)
async def test_a_direction_that_a_model_says_aloud_is_not_heard(tmp_path: Path, kept: str, echo: Any):
    def talk(call: Call) -> str:
        text = call.request.messages[-1].text
        place = max(text.find("[Stage direction"), text.find("(For you alone"))
        return "Hm?" if place < 0 else echo(text[place:])

    plan = session(tmp_path, one=client("consistentMI"))
    assert (await run(plan, far_end(talk))).exit is Exit.DONE
    said = talk_of(plan)
    assert [text for party, text in said if party == "client"] == [kept] * 3
    assert [text for party, text in said if party == "therapist"] == ["Hm?", kept, kept], "nor is a reminder"


@pytest.mark.parametrize("method", ["consistentMI", "roleplayDoh", "simPatient"])
async def test_a_model_that_declines_beside_the_talk_fails_the_session_and_says_so(
    tmp_path: Path, method: str
):
    def declining(call: Call) -> Any:
        is_aside = call.request.schema is not None
        return Parsed(text="", finish="refusal" if is_aside else "stop", model="x")

    plan = session(tmp_path, one=client(method))
    assert (await run(plan, Scripted(declining))).exit is Exit.SOME_FAILED
    (state,) = states(plan).values()
    assert "declined" in state.reason
    assert "max_tokens" not in state.reason


@pytest.mark.parametrize("method", [*CASTS, "basic"])
async def test_every_client_and_every_model_is_asked_as_the_study_says(tmp_path: Path, method: str):
    one = client(method, model="x/other", temperature=0.3, max_tokens=77, prompt="Mind {{ partner }}.")
    provider = far_end()
    plan = session(tmp_path, one=one, other=therapist(values={"name": "Dr Ito"}))
    assert (await run(plan, provider)).exit is Exit.DONE
    calls = [call for call in provider.calls if call.party == "client"]
    assert calls
    for call in calls:
        assert call.request.model == "x/other"
        assert (call.request.temperature, call.request.max_tokens) == (0.3, 77)
    spoken = [call for call in calls if call.request.schema is None]
    assert all(call.request.messages[0].text.endswith("Mind Dr Ito.") for call in spoken)


@pytest.mark.parametrize("style", METHODS["client"]["patientPsi"].facts.styles)
async def test_each_style_has_a_prompt_and_one_limit_of_its_own(tmp_path: Path, style: str):
    provider = far_end()
    plan = session(tmp_path, one=client(style=style), settings={"max_turns": 1})
    await run(plan, provider)
    limits = {"verbose": 8, "upset": 3, "reserved": 3}
    system = provider.calls[1].request.messages[0].text
    assert f"in at most {limits.get(style, 5)} sentences" in system
    assert system.count("sentences") == 1, "no second limit contradicts it"
    assert logged(plan) == [{"style": style, "openness": "open"}]


async def test_patient_psi_opens_up_over_the_session(tmp_path: Path):
    plan = session(tmp_path, settings={"max_turns": 8})
    await run(plan, far_end())
    assert [state["openness"] for state in logged(plan)] == ["guarded"] * 2 + ["warming"] * 2 + ["open"] * 4


async def test_roleplay_doh_revises_only_what_breaks_a_principle(tmp_path: Path):
    def check(call: Call) -> Any:
        return {"answers": [{"reason": "r", "holds": call.turn != 2}]}

    provider = far_end(check=check)
    plan = session(tmp_path, one=client("roleplayDoh"))
    await run(plan, provider)
    made = [(call.turn, call.purpose) for call in provider.calls if call.party == "client"]
    assert [purpose for turn, purpose in made if turn == 1] == ["draft", "principles", "check"]
    assert [purpose for turn, purpose in made if turn == 2] == ["draft", "principles", "check", "revision"]
    assert [state["revised"] for state in logged(plan)] == [False, True, False]
    none = far_end(principles={"questions": []})
    plan = session(tmp_path / "none", one=client("roleplayDoh"))
    await run(plan, none)
    assert sum(call.party == "client" for call in none.calls) == 6, "nothing applies, nothing is checked"


async def test_the_levels_of_sim_patient_move_by_two_at_most(tmp_path: Path):
    jump = {"reason": "r", "control": 1, "efficacy": 10, "awareness": 3, "reward": 7}
    plan = session(tmp_path, one=client("simPatient"))
    await run(plan, far_end(levels=jump))
    seen = [(state["control"], state["efficacy"], state["awareness"]) for state in logged(plan)]
    assert seen == [(6, 6, 3), (4, 8, 3), (2, 10, 3)], "from 8, 4 and 3"


async def test_a_script_and_a_rule_based_therapist_need_no_model(tmp_path: Path):
    one = {"script": ["Hi.", "I can't sleep because of this thing.", "My sister says so."]}
    plan = session(tmp_path, one=one, other=therapist("eliza") | {"model": "x/t"}, settings={"max_turns": 9})
    provider = far_end()
    await run(plan, provider)
    assert provider.calls == []
    (state,) = states(plan).values()
    assert state.end_reason == "script_ended:client"
    said = [text for party, text in talk_of(plan) if party == "therapist"]
    assert "sleep" in said[2]
    assert "sister" in said[3]


async def test_a_human_on_either_side_parks_the_trial_and_goes_on(tmp_path: Path):
    plan = session(tmp_path, one={"human": True}, other=therapist("user"), settings={"max_turns": 2})
    said: list[str] = []
    while (await run(plan, far_end())).exit is Exit.PARKED:
        (question,) = open_questions(plan.folder)
        said.append(question.question)
        await answer(plan.folder, question, f"Line {len(said)}.", by="a person")
    assert [text for _, text in talk_of(plan)] == ["Line 1.", "Line 2.", "Line 3.", "Line 4."]
    assert said[1] == "Line 1."
    assert "turns left" in said[2], "the reminder reaches a human therapist too"
    assert "turns left" not in said[3]


SIDES = [("client", name) for name in (*CASTS, "basic")] + [
    ("therapist", name) for name in ("CBT", "MI", "basic", "bad", "eliza")
]


@pytest.mark.parametrize(("side", "method"), SIDES)
async def test_the_calls_of_every_turn_are_within_what_the_method_declares(
    tmp_path: Path, side: str, method: str
):
    low, high = METHODS[side][method].facts.calls
    parties = {"one": client(method)} if side == "client" else {"other": therapist(method)}
    plan = session(tmp_path, lane="rehearsal", replicates=6, settings={"max_turns": 6}, **parties)
    provider = RehearsalProvider()
    assert (await run(plan, provider)).exit is Exit.DONE
    with Archive(plan.folder) as archive:
        rows = [row for row in archive.calls() if row.party == side and row.purpose != "repair"]
    turns = {(state.id, turn) for state in states(plan).values() for turn in range(1, state.turns + 1)}
    counts = [sum((row.trial, row.turn) == place for row in rows) for place in turns]
    assert low <= min(counts)
    assert max(counts) <= high
    if high > low and method != "consistentMI":
        assert len(set(counts)) > 1, "the range is no empty promise"


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """What makes a method ask as rarely, or as often, as it ever does in a turn."""

    side: str
    method: str
    calls: int
    turn: int = 0
    """The turn in which it does; 0: in one of them."""
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    aside: Mapping[str, Any] = field(default_factory=dict[str, Any])
    character: Mapping[str, Any] = field(default_factory=dict[str, Any])


STUBBORN = {"personas": [f"Fact {n}." for n in range(8)], "beliefs": [f"Objection {n}." for n in range(8)]}
HOPELESS = {"check": {"answers": [{"reason": "r", "holds": False}]}}
EXTREMES = [
    # Off its topic for the fifth time, as a count of words has found out: it leaves, and there is nothing to decide.
    Extreme(
        side="client",
        method="consistentMI",
        calls=1,
        turn=5,
        settings={"topic_reader": "words", "patience_turns": 0},
    ),
    # A question that comes near and does not touch, and that none of eight facts or objections answers.
    Extreme(
        side="client",
        method="consistentMI",
        calls=12,
        aside={"topic": {"topic": "being an example"}},
        character=STUBBORN,
    ),
    Extreme(
        side="client", method="roleplayDoh", calls=2, turn=1, aside={"principles": {"questions": list[str]()}}
    ),
    Extreme(side="client", method="roleplayDoh", calls=4, turn=1, aside=HOPELESS),
    Extreme(side="therapist", method="MI", calls=0, turn=1),
    Extreme(
        side="therapist", method="MI", calls=13, turn=2, aside={"feedback": {"feedback": "No.", "score": 1}}
    ),
]


@pytest.mark.parametrize("case", EXTREMES, ids=lambda case: f"{case.method}-{case.calls}")
async def test_the_bounds_of_the_calls_of_a_turn_are_reached(tmp_path: Path, case: Extreme):
    own = therapist(case.method) if case.side == "therapist" else client(case.method)
    if case.character:
        own["character"] |= case.character
    plan = session(
        tmp_path,
        settings={"max_turns": 8, **case.settings},
        **{"other" if case.side == "therapist" else "one": own},
    )
    provider = far_end(lambda _: "How about examinations, tests and finals?", **case.aside)
    assert (await run(plan, provider)).exit is Exit.DONE
    (state,) = states(plan).values()
    asked = Counter(call.turn for call in provider.calls if call.party == case.side)
    counts = [asked[turn] for turn in range(1, state.turns + 1)]
    assert case.calls in METHODS[case.side][case.method].facts.calls, "the bound that plan shows"
    assert (counts[case.turn - 1] if case.turn else max(counts)) == case.calls


async def test_plan_knows_the_calls_of_a_turn_before_anything_is_asked(tmp_path: Path):
    plan = session(
        tmp_path,
        one=client("consistentMI"),
        other=therapist("MI"),
        factors={"therapist": {"parties.therapist.method": ["MI", "eliza"]}},
    )
    shown = await preview(plan, OnePrice())
    found = {key: (calls.low, calls.high) for key, calls in calls_a_turn(plan, shown.walked).items()}
    assert found == {
        ("client", "consistentMI"): (1, 12),
        ("therapist", "MI"): (0, 13),
        ("therapist", "eliza"): (0, 0),
    }
    assert any("client consistentMI 1 to 12" in note for note in shown.notes)
    for walked in shown.walked:
        low, high = (len(walk.calls) for walk in (walked.short, walked.long))
        assert 3 <= low <= 3 * 25
        assert 3 <= high <= 3 * 25


@pytest.mark.parametrize("method", CASTS)
async def test_two_runs_are_the_same_at_any_number_of_open_trials(tmp_path: Path, method: str):
    found = []
    for folder, open_trials in (("one", 1), ("many", 8)):
        plan = session(
            tmp_path / folder,
            one=client(method),
            other=therapist("MI"),
            lane="rehearsal",
            replicates=4,
            settings={"max_turns": 4},
            limits={"open_trials": open_trials},
        )
        assert (await run(plan, RehearsalProvider(), Options())).exit is Exit.DONE
        with Archive(plan.folder) as archive:
            states_ = sorted((row.trial, row.turn, row.party, repr(row.values)) for row in archive.states())
        found.append((tables(plan), states_))
        assert not (await verify(plan)).differences
    assert found[0] == found[1]
    texts_ = [row[3] for row in found[0][0]["messages"]]
    assert len(set(texts_)) > len(texts_) / 2, "replicates are no copies of each other"


async def test_another_seed_draws_otherwise(tmp_path: Path):
    def actions(folder: Path, seed: int) -> Any:
        return session(folder, one=client("consistentMI"), seed=seed, settings={"max_turns": 12})

    found = []
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        plan = actions(tmp_path / name, seed)
        await run(plan, far_end())
        found.append([each["action"] for each in logged(plan)])
    assert found[0] == found[1]
    assert found[0] != found[2]


@pytest.mark.parametrize(
    "changed",
    [
        {"parties.client.temperature": 0.9},
        {"parties.client.character": "beatriz"},
        {"parties.therapist.method": "bad"},
        {"settings.max_turns": 6},
        {"settings.max_turns": 3},
    ],
    ids=["temperature", "character", "method", "longer", "shorter"],
)
async def test_a_fork_at_a_turn_changes_what_comes_after_it_and_nothing_before(
    tmp_path: Path, changed: dict[str, Any]
):
    plan = session(tmp_path, one=client("consistentMI"), settings={"max_turns": 5})
    await run(plan, far_end())
    (source,) = states(plan)
    id_ = await fork(plan, source, turn=3, overrides=changed)
    provider = far_end(lambda call: f"{call.party} says anew {call.turn}")
    assert (await run(plan, provider)).exit is Exit.DONE
    assert {call.turn for call in provider.calls} == set(
        range(3, int(changed.get("settings.max_turns", 5)) + 1)
    )
    with Archive(plan.folder) as archive:
        said = [row.text for row in archive.messages() if row.trial == id_]
    assert not (await verify(plan)).differences
    assert "therapist says anew 3" in said
    asked = (
        provider.calls[0]
        if "therapist" in str(changed)
        else next(call for call in provider.calls if call.party == "client" and call.purpose == "reply")
    )
    if "parties.client.temperature" in changed:
        assert asked.request.temperature == 0.9
    if "parties.client.character" in changed:
        assert "You are Beatriz" in texts(asked)
    if "parties.therapist.method" in changed:
        assert "poor therapist" in texts(asked)


@pytest.mark.parametrize("write", range(3, 60, 7))
async def test_a_session_that_is_cut_anywhere_goes_on_as_if_nothing_had_been(tmp_path: Path, write: int):
    parts: dict[str, Any] = {"one": client("consistentMI"), "other": therapist("MI")}
    whole = session(tmp_path / "whole", **parts)
    await run(whole, far_end())
    plan, provider = session(tmp_path / "cut", **parts), far_end()
    inside = SqliteJournal.open(plan.folder, clock=SystemClock())
    with contextlib.suppress(Crash):
        await run(plan, provider, journal=CrashingJournal(inside, write=write, edge="after"))
    inside.abandon()
    with Archive(plan.folder) as archive:
        paid = {f"{call.trial}/{call.at}" for call in archive.calls() if call.status == "settled"}
    sent = len(provider.calls)
    assert (await run(plan, provider)).exit is Exit.DONE
    assert paid.isdisjoint(call.place for call in provider.calls[sent:])
    assert tables(plan) == tables(whole)


async def test_a_method_of_the_users_own_is_a_class_with_a_speak(tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        '''class Echo:
    """Says what it hears, twice."""

    def __init__(self, party):
        self.times = 0

    async def speak(self, scene, lab):
        self.times += 1
        lab.state("client", times=self.times)
        return f"{scene.heard(lab)} {scene.heard(lab)}"
''',
        encoding="utf-8",
    )
    one = {"model": "x/c", "method": "./mine.py:Echo"}
    plan = session(tmp_path, one=one)
    assert (await run(plan, far_end())).exit is Exit.DONE
    assert talk_of(plan)[1] == ("client", "therapist says 1 therapist says 1")
    assert [state["times"] for state in logged(plan)] == [1, 2, 3]
    assert (plan.folder / "code/mine.py").exists(), "the archive keeps the code"
    assert not (await verify(plan)).differences
