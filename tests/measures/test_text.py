"""Text measures: what a word is, and counts by party."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.core.ports import Utterance
from trialrun.measures.text import is_text_measure, text_measure_names, text_measures, word_count

PARTIES = ("client", "therapist")
TRANSCRIPT = [
    Utterance(turn=1, party="therapist", text="How are you?"),
    Utterance(turn=1, party="client", text="I don't know."),
    Utterance(turn=2, party="therapist", text="Tell me more…"),
    Utterance(turn=2, party="client", text="", audience=("therapist",)),
]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", 0),
        ("   \n\t", 0),
        ("one", 1),
        ("One, two; three!", 3),
        ("don't", 1),
        ("don’t l’été", 2),
        ("mother-in-law", 1),
        ("rock 'n' roll", 3),
        ("'quoted' \"words\"", 2),
        ("well — I – no - yes", 4),
        ("so--yes", 2),
        ("4th of July 2026", 4),
        ("3.14", 2),
        ("snake_case", 2),
        ("_", 0),
        ("😀 👩‍👩‍👧 ok", 1),
        ("naïve café", 2),
        ("nai\u0308ve cafe\u0301", 2),
        ("Привет, мир", 2),
        ("שָׁלוֹם עוֹלָם", 2),
        ("नमस्ते दुनिया", 2),
        ("می\u200cخواهم", 1),
        ("你好世界", 1),
        ("**bold** _it_ `code`", 3),
        ("a\ud800b", 2),
    ],
)
def test_a_word_is_a_run_of_letters_and_digits_of_any_script(text: str, words: int):
    assert word_count(text) == words


@given(
    st.lists(st.from_regex(r"[a-zäß0-9]+(['-][a-z0-9]+)*", fullmatch=True)),
    st.sampled_from([" ", ", ", "\n", " – "]),
)
def test_words_between_separators_are_counted_one_by_one(words: list[str], separator: str):
    assert word_count(separator.join(words)) == len(words)


@given(st.text(), st.text())
def test_words_of_two_texts_add_up(one: str, other: str):
    assert word_count(f"{one} \n {other}") == word_count(one) + word_count(other)


def test_counts_go_by_party_and_over_all():
    names = text_measure_names(PARTIES)
    assert text_measures(names, TRANSCRIPT) == {
        "words": 9,
        "turns": 2,
        "client.words": 3,
        "client.characters": 13,
        "client.messages": 2,
        "therapist.words": 6,
        "therapist.characters": 25,
        "therapist.messages": 2,
    }


def test_only_what_is_asked_for_is_counted():
    assert text_measures(["client.words"], TRANSCRIPT) == {"client.words": 3}
    assert text_measures([], TRANSCRIPT) == {}


def test_a_party_that_said_nothing_has_0_as_that_is_what_happened():
    assert text_measures(["observer.words", "observer.messages"], TRANSCRIPT) == {
        "observer.words": 0,
        "observer.messages": 0,
    }
    assert text_measures(["turns", "words"], []) == {"turns": 0, "words": 0}


def test_every_name_that_is_offered_is_accepted_and_no_other():
    assert all(is_text_measure(name, PARTIES) for name in text_measure_names(PARTIES))
    for name in (
        "client.wrods",
        "clinet.words",
        "client",
        ".words",
        "client.turns",
        "client.words.",
        "disclosure",
        "",
    ):
        assert not is_text_measure(name, PARTIES)


def test_a_party_may_have_a_dot_in_its_name():
    said = [Utterance(turn=1, party="dr.who", text="Run!")]
    assert is_text_measure("dr.who.words", ["dr.who"])
    assert text_measures(["dr.who.words"], said) == {"dr.who.words": 1}


def test_a_name_that_cannot_be_counted_is_refused():
    with pytest.raises(ValueError, match="disclosure"):
        text_measures(["disclosure"], TRANSCRIPT)
