"""What comes with Trialrun for therapy: enough of it, whole, different from each other, and consistent."""

import re
from collections import Counter
from itertools import combinations, pairwise
from typing import Any, cast

import msgspec
import pytest

from trialrun.procedures.therapy.characters import DISTORTIONS, KINDS, SYMPTOMS, Motivation
from trialrun.procedures.therapy.motivation.machine import Action, Stage
from trialrun.procedures.therapy.motivation.topics import our_topics
from trialrun.procedures.therapy.prompts import LOCALES, folder, prompts_of, read_data
from trialrun.procedures.therapy.registry import METHODS
from trialrun.procedures.therapy.shelf import SHELF

TOPICS = our_topics()


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in texts_in(item)]
    return [text for item in value for text in texts_in(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", sorted(SHELF))
def test_every_character_is_whole(name: str):
    data = SHELF[name]
    character = msgspec.convert(dict(data), KINDS[str(data["kind"])])
    assert character.name[0].isupper()
    assert re.fullmatch(r"[a-z]+(-[a-z]+)?", name)
    for text in texts_in(dict(data)):
        assert text == text.strip()
        assert "  " not in text
        assert "{" not in text, "a character is no template"


def test_there_are_enough_persons_and_situations():
    names = SHELF.of_kind("cognitive")
    persons = Counter(name.split("-")[0] for name in names)
    assert len(persons) >= 8
    assert min(persons.values()) >= 2
    for person in persons:
        same = [SHELF[name] for name in names if name.startswith(person)]
        assert len({str(each["history"]) for each in same}) == 1, "one person has one history"
        assert len({str(each["situation"]) for each in same}) == len(same)


@pytest.mark.parametrize(
    "person", ["gerald", "ines", "kiran", "tomasz", "farah", "ivan", "ruth", "ewa", "hugo"]
)
def test_heavy_content_has_a_warning_for_readers_in_every_situation(person: str):
    found = [SHELF[name].get("notice") for name in SHELF if name.split("-")[0] == person]
    assert found
    assert all(found)


def test_there_are_enough_changes_to_make():
    profiles = [msgspec.convert(dict(SHELF[name]), Motivation) for name in SHELF.of_kind("motivation")]
    assert len(profiles) >= 12
    assert len({profile.goal for profile in profiles}) >= 5
    assert {profile.stage for profile in profiles} > {"precontemplation"}
    for profile in profiles:
        specific, middle, top = profile.motive.topics
        assert TOPICS.parents[specific] == middle, profile.name
        assert TOPICS.parents[middle] == top, profile.name
        assert len(profile.personas) >= 3
        assert profile.beliefs
        assert profile.plans
    bands = {int(sum(profile.suggestibilities) / 5) for profile in profiles}
    assert bands >= {1, 2, 3, 5}, "receptivity of several bands"
    motives = {profile.motive.topics[0] for profile in profiles}
    assert len(motives) >= 10, "different people are moved by different things"


def test_depression_profiles_come_in_four_severities_and_are_as_bad_as_they_say():
    points = {"none": 0, "mild": 1, "moderate": 2, "severe": 3}
    sums: dict[str, list[int]] = {}
    for name in SHELF.of_kind("depression"):
        data = cast("dict[str, Any]", SHELF[name])
        assert list(data["symptoms"]) == list(SYMPTOMS)
        assert list(data["distortions"]) == list(DISTORTIONS)
        sums.setdefault(data["severity"], []).append(
            sum(points[value] for value in data["symptoms"].values())
        )
        if data["suicidal_ideation"] != "none":
            assert data.get("notice"), f"{name} needs a warning for readers"
    assert list(sums) == ["minimal", "mild", "moderate", "severe"]
    assert all(len(found) >= 2 for found in sums.values())
    in_order = [sums[severity] for severity in ("minimal", "mild", "moderate", "severe")]
    for less, more in pairwise(in_order):
        assert max(less) < min(more)


def test_no_two_characters_share_a_sentence():
    owners: dict[str, str] = {}
    for name in SHELF:
        person = name.split("-")[0]
        sentences = {
            sentence
            for text in texts_in({key: value for key, value in SHELF[name].items() if key != "notice"})
            for sentence in re.split(r"(?<=[.!?]) ", text)
            if len(sentence) > 40
        }
        for sentence in sentences:
            assert owners.setdefault(sentence, person) == person, sentence


def test_the_referral_tells_a_therapist_no_secret():
    """Nothing of what is hidden stands in the introduction word for word."""
    for name in SHELF:
        data = dict(SHELF[name])
        introduction = " ".join(str(data.get(key, "")) for key in ("referral", "goal")).lower()
        for text in texts_in({key: value for key, value in data.items() if key not in ("referral", "goal")}):
            assert len(text) < 30 or text.lower() not in introduction, name


def test_the_map_of_topics_is_large_enough_and_a_tree():
    assert len(TOPICS.about) >= 60
    assert len(TOPICS.top) == 5
    for topic in TOPICS.about:
        depth, here = 0, topic
        while here in TOPICS.parents:
            depth, here = depth + 1, TOPICS.parents[here]
        assert depth <= 2
        assert here in TOPICS.top
    weights = {weight for ways in TOPICS.roads.values() for weight in ways.values()}
    assert weights == {1, 2, 3}
    for one, other in combinations(TOPICS.about, 2):
        assert TOPICS.roads[one].get(other) == TOPICS.roads[other].get(one)


@pytest.mark.parametrize("locale", LOCALES)
def test_a_pack_of_prompts_has_a_text_for_everything_that_the_methods_name(locale: str):
    prompts = prompts_of(locale)
    assert set(prompts.table("consistent_mi.actions")) == {str(action) for action in Action}
    assert set(prompts.table("consistent_mi.stages")) == {str(stage) for stage in Stage}
    assert set(prompts.table("consistent_mi.engagement")) == {f"level_{level}" for level in (1, 2, 3, 4)}
    assert set(prompts.table("patient_psi.styles")) == set(METHODS["client"]["patientPsi"].facts.styles)
    assert len(prompts.table("mi.strategies")) >= 17


@pytest.mark.parametrize("locale", LOCALES)
def test_prompts_are_written_cleanly(locale: str):
    for entry in (folder() / "prompts" / locale).iterdir():
        for text in texts_in(read_data("prompts", locale, entry.name)):
            assert not re.search(r"\S[ \t]+$", text, re.MULTILINE), entry.name
            assert text.count("{{") == text.count("}}")
            assert text.count("{%") == text.count("%}")
