"""What a client hides never reaches the therapist's side but by the client's own mouth, and the other way round.

Every hidden text of every kind of character gets a mark of its own; then all requests of whole sessions are searched.
And in the strongest form: a client that differs in everything hidden, numbers and words of closed sets too, leaves what
the therapist is asked, shown and drawn the same to the byte.
"""

import re
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.behaviour.support import run
from tests.therapy.sessions import CASTS, client, far_end, session, talk_of, therapist
from trialrun.app.answers import answer, open_questions
from trialrun.app.exits import Exit
from trialrun.core.calls import Call, RawReply
from trialrun.procedures.therapy.characters import KINDS
from trialrun.procedures.therapy.motivation.topics import our_topics
from trialrun.procedures.therapy.shelf import SHELF
from trialrun.providers.rehearsal.provider import RehearsalProvider

MARK = re.compile(r"zq[a-z]+zq")
SHARED = {"name", "referral", "goal"}
FIXED = {
    "kind",
    "stage",
    "severity",
    "resistance",
    "suicidal_ideation",
    "homicidal_ideation",
    "symptoms",
    "notice",
}
"""Fields whose values are words of a closed set, and one that no model sees."""
THERAPISTS = ("CBT", "MI", "basic", "bad")


def marked(value: Any, numbers: Any) -> Any:
    """The value with a mark in each of its texts; topics are names on a map and stay."""
    if isinstance(value, str):
        letters = "".join("abcdefghij"[int(digit)] for digit in str(next(numbers)))
        return value if value in our_topics().about else f"{value} zq{letters}zq"
    if isinstance(value, dict):
        return {key: marked(item, numbers) for key, item in value.items()}
    return [marked(item, numbers) for item in value] if isinstance(value, list) else value


def hiding(name: str) -> dict[str, Any]:
    """A character with marks in everything that it hides."""
    numbers = count()
    return {
        key: value if key in SHARED | FIXED else marked(value, numbers) for key, value in SHELF[name].items()
    }


def texts(call: Call) -> str:
    request = call.request
    return "\n".join(
        [*(message.text for message in request.messages), repr(request.schema), repr(request.params)]
    )


def marks(calls: list[Call]) -> set[str]:
    return {mark for call in calls for mark in MARK.findall(texts(call))}


def of(calls: list[Call], party: str) -> list[Call]:
    return [call for call in calls if call.party == party]


def study(folder: Path, method: str, other: dict[str, Any], **changes: Any) -> Any:
    one = client(method, character=hiding(CASTS[method]), prompt="Your secret is zqpromptzq.")
    one["values"] = {"secret": "zqvaluezq"}
    return session(folder, one=one, other=other, settings={"max_turns": 6}, **changes)


@pytest.mark.parametrize("method", CASTS)
@pytest.mark.parametrize("other", THERAPISTS)
async def test_no_request_of_a_therapist_holds_what_the_client_hides(tmp_path: Path, method: str, other: str):
    provider = far_end(
        lambda call: "And what was that like?" if call.party == "therapist" else "I would rather not say.",
        topic={"topic": "being an example"},
        motive={"answer": True},
        item={"answer": True},
    )
    plan = study(tmp_path, method, therapist(other))
    assert (await run(plan, provider)).exit is Exit.DONE
    hidden = set(MARK.findall(repr(plan.study.document["parties"])))
    assert len(hidden) > 5
    assert marks(of(provider.calls, "therapist")) == set()
    used = marks(of(provider.calls, "client"))
    assert len(used) >= min(len(hidden), 5), "a client's own prompts hold what it is made of"
    if method in ("patientPsi", "eeyore"):
        assert hidden - used <= {"zqvaluezq"}, "all of it"


@pytest.mark.parametrize("method", CASTS)
async def test_a_therapist_learns_by_listening_alone(tmp_path: Path, method: str):
    """With rehearsed replies a client blurts marks out now and then; then, and only then, the therapist has them."""
    calls: list[Call] = []

    class Listening(RehearsalProvider):
        async def send(self, call: Call, body: bytes, *, attempt: int, timeout_s: float) -> RawReply:
            calls.append(call)
            return await super().send(call, body, attempt=attempt, timeout_s=timeout_s)

    plan = study(tmp_path, method, therapist("MI"), lane="rehearsal", replicates=2)
    assert (await run(plan, Listening())).exit is Exit.DONE
    said: dict[str, str] = {}
    for call in of(calls, "client"):
        own = [message.text for message in call.request.messages if message.role == "assistant"]
        said[call.trial] = said.get(call.trial, "") + "\n".join(own)
    for call in of(calls, "therapist"):
        assert marks([call]) <= set(MARK.findall(said[call.trial]))
    assert len(marks(of(calls, "client"))) > 4


@pytest.mark.parametrize("method", CASTS)
async def test_a_human_therapist_is_shown_no_secret_either(tmp_path: Path, method: str):
    plan = study(tmp_path, method, therapist("user"))
    seen: list[str] = []
    while (await run(plan, far_end())).exit is Exit.PARKED:
        (question,) = open_questions(plan.folder)
        seen.append(question.question)
        await answer(plan.folder, question, "And then?", by="a person")
    assert len(seen) == 6
    assert MARK.findall("\n".join(seen)) == []
    assert str(SHELF[CASTS[method]]["referral"]) in seen[0], "the introduction is for both"


async def test_what_the_counsellor_thinks_never_reaches_the_client(tmp_path: Path):
    provider = far_end(feedback={"feedback": "zqfeedbackzq", "score": 2})
    other = therapist("MI", prompt="Between us: zqpromptzq.", values={"name": "Dr Ito", "note": "zqvaluezq"})
    plan = session(tmp_path, one=client("consistentMI"), other=other)
    await run(plan, provider)
    assert marks(of(provider.calls, "therapist")) == {"zqfeedbackzq", "zqpromptzq"}
    assert marks(of(provider.calls, "client")) == set()
    assert not any("reflect" in texts(call) for call in of(provider.calls, "client"))


CLOSED: dict[str, Any] = {
    "stage": "contemplation",
    "severity": "severe",
    "resistance": "low",
    "suicidal_ideation": "severe",
    "homicidal_ideation": "mild",
    "topics": ["sleep", "mental health", "health"],
}
"""Another value for fields with a closed set of words."""


def otherwise(value: Any, key: str = "") -> Any:
    """Another value everywhere: other texts, other numbers, other words of closed sets."""
    if key in CLOSED:
        return CLOSED[key]
    match value:
        case bool():
            return not value
        case int():
            return value + 1 if value < 5 else value - 1
        case str() if value in ("none", "mild", "moderate", "severe"):
            return "mild" if value == "severe" else "severe"
        case str():
            return f"Quite another thing than {value[:7]}"
        case dict():
            return {name: otherwise(item, name) for name, item in value.items()}
        case _:
            return [otherwise(item) for item in value]


def changed(name: str) -> dict[str, Any]:
    """The same person for the therapist, and another one in everything that is hidden."""
    return {
        key: value if key in SHARED | {"kind"} else otherwise(value, key)
        for key, value in SHELF[name].items()
    }


def sent(calls: list[Call], party: str) -> list[tuple[str, int, str]]:
    return [(call.address, call.turn, texts(call)) for call in of(calls, party)]


@pytest.mark.parametrize("method", CASTS)
def test_everything_that_is_hidden_is_changed(method: str):
    before, after = SHELF[CASTS[method]], changed(CASTS[method])
    same = {key for key in before if before[key] == after[key]}
    assert same <= SHARED | {"kind"}
    msgspec.convert(after, KINDS[str(before["kind"])])


@pytest.mark.parametrize("method", CASTS)
@pytest.mark.parametrize("other", [*THERAPISTS, "eliza"])
async def test_whatever_the_client_hides_the_therapist_is_asked_the_same(
    tmp_path: Path, method: str, other: str
):
    seen: list[Any] = []
    for place, character in enumerate((dict(SHELF[CASTS[method]]), changed(CASTS[method]))):
        more: dict[str, Any] = {"prompt": f"Your secret is number {place}.", "values": {"secret": place}}
        if method == "patientPsi":
            more["style"] = ("plain", "upset")[place]
        plan = session(
            tmp_path / str(place),
            one=client(method, character=character, **more),
            other=therapist(other),
            settings={"max_turns": 6},
        )
        provider = far_end(
            lambda call: "And then?" if call.party == "therapist" else "I feel tired. My sister knows."
        )
        assert (await run(plan, provider)).exit is Exit.DONE
        assert len({texts(call) for call in of(provider.calls, "client")}) > 5
        said = [text for party, text in talk_of(plan) if party == "therapist"]
        seen.append((sent(provider.calls, "therapist"), said))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("method", CASTS)
async def test_whatever_the_client_hides_a_human_therapist_is_shown_the_same(tmp_path: Path, method: str):
    shown: list[list[str]] = []
    for place, character in enumerate((dict(SHELF[CASTS[method]]), changed(CASTS[method]))):
        plan = session(
            tmp_path / str(place), one=client(method, character=character), other=therapist("user")
        )
        found: list[str] = []
        while (await run(plan, far_end(lambda _: "I feel tired."))).exit is Exit.PARKED:
            (question,) = open_questions(plan.folder)
            found.append(question.question)
            await answer(plan.folder, question, "And then?", by="a person")
        shown.append(found)
    assert shown[0] == shown[1]
    assert len(shown[0]) == 3


@pytest.mark.parametrize("method", CASTS)
async def test_whatever_the_counsellor_thinks_the_client_is_asked_the_same(tmp_path: Path, method: str):
    seen: list[Any] = []
    for place in (0, 1):
        aside: dict[str, Any] = {
            "stage": {"stage": ("contemplation", "preparation")[place]},
            "choose_strategies": {"strategies": [("affirm", "support")[place]]},
            "feedback": {"feedback": f"Feedback {place}.", "score": (9, 2)[place]},
        }
        other = therapist("MI", prompt=f"Secret {place}.", values={"name": "Dr Ito", "note": str(place)})
        plan = session(tmp_path / str(place), one=client(method), other=other)
        provider = far_end(lambda call: "And then?" if call.party == "therapist" else "Well.", **aside)
        assert (await run(plan, provider)).exit is Exit.DONE
        seen.append([text for _, _, text in sent(provider.calls, "client")])
    assert seen[0] == seen[1]
