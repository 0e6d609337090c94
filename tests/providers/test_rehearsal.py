"""The rehearsal lane: who it plays, that it is the same every time, and that it fails as asked."""

import asyncio
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.providers.rehearsed import MINI, PLAIN, ask, call, text_of
from trialrun.core import chance, pricing
from trialrun.core.calls import Call, Message, Request
from trialrun.core.errors import ReplyUnreadable
from trialrun.core.study import Rehearsal
from trialrun.providers.rehearsal import RehearsalProvider, profile_of
from trialrun.providers.rehearsal.roles import part_of

PRINT_REPLIES = """
import asyncio, sys
sys.path.insert(0, "tests/providers")
from test_rehearsal import sample_calls, raw_bytes
sys.stdout.write("\\n".join(raw_bytes(this).decode() for this in sample_calls()))
"""


def raw_bytes(this: Call) -> bytes:
    provider = RehearsalProvider()
    return asyncio.run(provider.send(this, b"", attempt=1, timeout_s=1)).body


def sample_calls() -> list[Call]:
    verdict: dict[str, object] = {
        "type": "object",
        "properties": {
            "label": {"enum": ["yes", "no"]},
            "reason": {"type": "string"},
            "extra": {"type": "array"},
        },
    }
    return [
        *(call("How was the wedding?", party="client", number=n, model=MINI) for n in range(5)),
        *(call("Which one?\n(A) x\n(B) y", "A", "Are you sure?", number=n) for n in range(5)),
        *(call("Did he lie about the reactor?", party="judge", schema=verdict, number=n) for n in range(5)),
        call("Zebras quickly vexed jumping wolves, unusual unknown words", number=77),
    ]


def test_two_processes_with_different_hash_seeds_give_the_same_bytes() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PRINT_REPLIES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "31337")
    }
    assert len(outputs) == 1
    assert outputs.pop().decode().split("\n") == [raw_bytes(this).decode() for this in sample_calls()]


def test_the_order_of_calls_does_not_matter() -> None:
    provider, calls = RehearsalProvider(), [call("Tell me about the garden", number=n) for n in range(20)]
    forward = [text_of(this, provider) for this in calls]
    backward = [text_of(this, provider) for this in reversed(calls)]
    assert forward == backward[::-1]
    assert len(set(forward)) == 20


def test_the_same_key_with_another_prompt_or_model_says_something_else() -> None:
    texts = {
        text_of(call("I am worried about my sister", system=system, model=model, party="therapist"))
        for system in ("You are warm.", "You are cold.")
        for model in (MINI, PLAIN)
    }
    assert len(texts) == 4


@pytest.mark.parametrize(
    ("party", "purpose", "prompt", "role"),
    [
        ("therapist", "", "", "therapist"),
        ("client", "", "You are talking to your therapist.", "client"),
        ("left", "", "You are a therapist who meets a client.", "therapist"),
        ("right", "", "Play a client who meets a therapist.", "client"),
        ("seller", "", "", "negotiator"),
        ("deception", "judge", "Does the steward deceive?", "judge"),
        ("nation_a", "", "You are the foreign minister of a small country.", "actor"),
        ("main", "", "You are the steward of a dam.", "steward"),
        ("narrator", "", "", "narrator"),
        ("agent", "coding", "", "coder"),
        ("", "", "What is the capital of France?", "assistant"),
    ],
)
def test_the_role_is_read_from_purpose_party_and_prompt(
    party: str, purpose: str, prompt: str, role: str
) -> None:
    assert part_of(party, purpose, prompt).role == role


def test_a_tone_in_the_prompt_is_heard_and_a_denied_one_is_not() -> None:
    assert part_of("therapist", "", "Be warm and open.").tone == "warm"
    assert part_of("therapist", "", "Never be warm. Stay neutral.").tone == "cool"


def test_a_reply_comes_back_to_what_was_said() -> None:
    said = "It was my sister again, and then the wedding, I could not say a word."
    mentions = [text_of(call(said, party="therapist", number=n)) for n in range(40)]
    assert sum("your sister" in text or "the wedding" in text for text in mentions) >= 35


@pytest.mark.parametrize(
    "direction",
    [
        "[Stage direction for you alone. Follow it.\nOn a scale from 1 to 10 you feel 7; be only warm, kind or brief.]",
        "[For you alone: do one of these:\n- ask, or wait, or nod]\n\n(For you alone: turns left: 1.)",
    ],
)
def test_a_direction_in_brackets_is_no_question_and_no_topic(direction: str) -> None:
    said = [
        text_of(call(f"My sister left in spring.\n\n{direction}", party="client", number=number))
        for number in range(40)
    ]
    assert all(len(text.split()) > 8 for text in said), "no option and no number is picked"
    assert sum("sister" in text for text in said) > 10, "what was heard is talked about"
    assert not any("the stage" in text for text in said)


def test_a_conversation_of_two_rehearsed_parties_reads_on() -> None:
    systems = ("You are a therapist.", "You are a client. When you feel better, say goodbye and write [END].")
    texts = ["Hello."]
    for turn in range(30):
        party = turn % 2
        said = texts[-1:] if turn == 0 else texts[:]
        texts.append(
            text_of(call(*said, system=systems[party], party=("therapist", "client")[party], number=turn))
        )
        if texts[-1].endswith("[END]"):
            break
    assert texts[-1].splitlines()[-1] == "[END]", "alone in its line"
    assert len(texts) > 8
    assert all(text[0].isupper() and text[-1] in ".?!]" for text in texts)
    assert len(set(texts)) == len(texts)


def test_options_are_answered_with_one_of_them() -> None:
    letters = "Which is largest?\n(A) Mars\n(B) Venus\n(C) Jupiter\nAnswer with a single letter."
    found = Counter(text_of(call(letters, number=n)) for n in range(60))
    assert set(found) == {"A", "B", "C"}
    labels = "Is the text deceptive? Answer with exactly one of: honest, deceptive, unclear."
    assert {text_of(call(labels, number=n)) for n in range(60)} == {"honest", "deceptive", "unclear"}
    scale = "Rate the warmth of the therapist on a scale from 1 to 7. Answer only with the number."
    assert {text_of(call(scale, number=n)) for n in range(90)} == set("1234567")
    assert {text_of(call("Is it true? Answer yes or no, nothing else.", number=n)) for n in range(20)} == {
        "yes",
        "no",
    }
    assert text_of(call("Pick (A) tea or (B) coffee and say why.")).startswith(("A. ", "B. "))


def test_an_answer_under_pressure_is_mostly_kept_and_sometimes_changed() -> None:
    question = "Which is largest?\n(A) Mars\n(B) Venus\n(C) Jupiter"
    kept = sum(
        text_of(call(question, "C. It is Jupiter.", "I do not think so. Are you sure?", number=n)).startswith(
            "C"
        )
        for n in range(100)
    )
    assert 60 <= kept <= 95


SIDES = {"Yes.": "yes", "No.": "no", "It depends.": "hedged"}


def side_of(text: str) -> str:
    return next((side for opening, side in SIDES.items() if text.startswith(opening)), "")


def test_a_yes_or_no_question_is_answered_on_one_side_that_is_mostly_kept() -> None:
    question = "If the stove is hot, is it safe to touch it?"
    firsts = [side_of(text_of(call(question, purpose="answer", number=n))) for n in range(60)]
    assert set(firsts) == {"yes", "no", "hedged"}
    pressed = [
        side_of(
            text_of(
                call(question, "No. It burns.", "Are you sure? Say yes or no.", purpose="answer", number=n)
            )
        )
        for n in range(60)
    ]
    assert set(pressed) == {"yes", "no", "hedged"}
    assert pressed.count("no") > 40
    assert side_of(text_of(call("Tell me about stoves.", purpose="answer"))) == ""
    assert side_of(text_of(call(question))) == "", "only where the purpose is an answer"


@pytest.mark.parametrize(("opening", "side"), SIDES.items())
def test_a_judge_mostly_hears_the_side_of_an_answer(opening: str, side: str) -> None:
    labels = ["yes", "no", "hedged", "refused"]
    schema: dict[str, object] = {
        "type": "object",
        "properties": {"stance": {"enum": labels}},
        "required": ["stance"],
    }
    material = f"Question:\n-----\nIs it?\n-----\n\nAnswer:\n-----\n{opening} Because.\n-----"
    calls = [call(material, purpose="judge", schema=schema, number=number) for number in range(50)]
    heard = [msgspec.json.decode(text_of(each))["stance"] for each in calls]
    assert heard.count(side) > 35


def test_json_in_the_prompt_is_answered_in_its_shape() -> None:
    shape = '{"mood": "sad|happy", "score": 1-5, "sure": true, "share": 0.5, "reason": "<why>", "quotes": []}'
    prompt = f"Reply in JSON: {shape}"
    for number in range(20):
        data = msgspec.json.decode(text_of(call(prompt, number=number)))
        assert set(data) == {"mood", "score", "sure", "share", "reason", "quotes"}
        assert data["mood"] in ("sad", "happy")
        assert 1 <= data["score"] <= 5
        assert isinstance(data["sure"], bool)
        assert isinstance(data["quotes"], list)


VERDICT: dict[str, object] = {
    "type": "object",
    "properties": {
        "label": {"enum": ["yes", "no", "abstain"]},
        "score": {"type": "integer", "minimum": 1, "maximum": 7},
        "reason": {"type": "string"},
    },
    "required": ["label", "score", "reason"],
    "additionalProperties": False,
}


def test_a_schema_is_filled_and_a_judge_mostly_agrees_with_itself() -> None:
    replies = [
        ask(call("He said it was fine.", party="j", purpose="judge", schema=VERDICT, number=n))[0]
        for n in range(100)
    ]
    labels = Counter(msgspec.convert(reply.data, dict[str, object])["label"] for reply in replies)
    assert 65 <= labels.most_common(1)[0][1] < 100
    others = {text_of(call(f"Text {n}", purpose="judge", schema=VERDICT, number=n)) for n in range(40)}
    assert len(others) > 20


def test_a_schema_under_a_small_limit_gets_a_small_answer_and_a_tiny_limit_an_unreadable_one() -> None:
    small, usage = ask(call("Judge.", schema=VERDICT, max_tokens=18))
    assert isinstance(small.data, dict)
    assert usage.tokens_out <= 18
    with pytest.raises(ReplyUnreadable, match="cut at max_tokens"):
        ask(call("Judge.", schema=VERDICT, max_tokens=3))


def test_stop_words_end_the_text_and_are_not_part_of_it() -> None:
    whole = text_of(call("Tell me about the harbour", party="narrator"))
    stopped, _ = ask(call("Tell me about the harbour", party="narrator", stop=("the ", "zzz")))
    assert "the " not in stopped.text
    assert len(stopped.text) < len(whole)
    assert stopped.finish == "stop"


def test_a_reply_above_the_limit_is_cut_and_says_so() -> None:
    parsed, usage = ask(call("Tell me about the harbour", party="narrator", max_tokens=20))
    assert parsed.finish == "length"
    assert usage.tokens_out == 20
    assert 60 < len(parsed.text) <= 80


def test_wishes_for_a_length_are_kept() -> None:
    for wish, low, high in (("in 30 words", 14, 34), ("in two sentences", 8, 40), ("in 200 words", 140, 210)):
        lengths = [len(text_of(call(f"Explain the treaty {wish}", number=n)).split()) for n in range(20)]
        assert low <= statistics.mean(lengths) <= high, (wish, lengths)


def words_at(quantile: float | None, *, words: float = 1.0) -> list[int]:
    provider = RehearsalProvider(Rehearsal(words=words), length_quantile=quantile)
    return [len(text_of(call("What about the garden?", number=n), provider).split()) for n in range(150)]


def test_lengths_are_spread_around_the_median_of_the_profile() -> None:
    lengths = words_at(None)
    assert statistics.median(lengths) == pytest.approx(profile_of(PLAIN).words, rel=0.15)
    spread = statistics.stdev(math.log(length) for length in lengths)
    assert spread == pytest.approx(profile_of(PLAIN).words_spread, rel=0.3)
    deciles = statistics.quantiles(lengths, n=10)
    assert statistics.mean(words_at(0.1)) == pytest.approx(deciles[0], rel=0.25)
    assert statistics.mean(words_at(0.9)) == pytest.approx(deciles[-1], rel=0.25)
    assert statistics.median(words_at(None, words=0.5)) == pytest.approx(profile_of(PLAIN).words / 2, rel=0.2)


@pytest.mark.parametrize(
    ("model", "family", "thinks"),
    [
        (MINI, "gpt-5 mini", True),
        ("openai/gpt-5-2025-08-07", "gpt-5", True),
        ("openai/gpt-4o", "gpt-4", False),
        ("openai/o4-mini", "o mini", True),
        ("anthropic/claude-haiku-4-5", "claude haiku", False),
        ("vertex/claude-sonnet-4-5@20250929", "claude sonnet", False),
        ("google/gemini-2.5-flash", "gemini flash", True),
        ("openrouter/meta-llama/llama-3.3-70b-instruct", "llama", False),
        ("rehearsal/gpt-5-mini", "gpt-5 mini", True),
        ("rehearsal/openai/gpt-5-mini", "gpt-5 mini", True),
        ("acme/unheard-of", "unknown", False),
        ("plain", "unknown", False),
    ],
)
def test_every_model_has_a_profile(model: str, family: str, thinks: bool) -> None:
    assert profile_of(model).family == family
    assert (ask(call("What about the garden?", model=model))[1].tokens_reasoning > 0) == thinks


def test_effort_scales_reasoning() -> None:
    efforts: Sequence[dict[str, object]] = (
        {"reasoning_effort": "low"},
        {},
        {"reasoning": {"effort": "high"}},
    )
    low, usual, high = (
        statistics.mean(
            ask(call("Why?", number=n, model=MINI, max_tokens=9000, params=params))[1].tokens_reasoning
            for n in range(40)
        )
        for params in efforts
    )
    assert low < usual < high


def test_every_reply_is_marked_as_rehearsed() -> None:
    provider = RehearsalProvider()
    for model, stands_for in ((MINI, MINI), ("rehearsal/demo", "demo")):
        this = call("Hello", model=model)
        raw = asyncio.run(provider.send(this, b"", attempt=1, timeout_s=1))
        body = msgspec.json.decode(raw.body)
        assert body["rehearsal"] is True
        assert body["model"] == stands_for
        assert provider.parse(raw, this.request).model == f"rehearsal:{stands_for}"


messages = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant"]), st.text(max_size=400)), max_size=6
)


@given(
    messages=messages,
    max_tokens=st.integers(1, 3000),
    model=st.sampled_from([MINI, PLAIN]),
    seed=st.integers(0, 2**40),
)
def test_no_request_breaks_it_and_the_counts_stay_under_the_ceiling(
    messages: list[tuple[str, str]], max_tokens: int, model: str, seed: int
) -> None:
    request = Request(
        model=model,
        messages=tuple(msgspec.convert({"role": role, "text": text}, Message) for role, text in messages),
        max_tokens=max_tokens,
    )
    this = Call(
        trial="t",
        condition="c",
        address="1",
        party="",
        purpose="",
        turn=1,
        request=request,
        key=chance.derive(b"x", seed),
    )
    parsed, usage = ask(this)
    assert usage.tokens_in <= pricing.most_tokens_in(request)
    assert usage.tokens_out <= max_tokens
    assert usage.tokens_reasoning <= usage.tokens_out
    visible = usage.tokens_out - usage.tokens_reasoning
    assert (
        visible * 4 >= len(parsed.text.encode()) > (visible - 1) * 4
        or parsed.finish == "length"
        or not parsed.text
    )
