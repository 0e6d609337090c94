"""The kinds of characters: what each method's client is made of, as typed data read from the study's document.

`name`, `referral` and `goal` are what a therapist is told; all other fields are the client's own.
"""

from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from trialrun.core.errors import ProcedureError
from trialrun.core.study import Party

T = TypeVar("T", bound="Character")
Text = Annotated[str, Meta(min_length=1)]
Texts = Annotated[list[Text], Meta(min_length=1, max_length=12)]
Severity = Literal["none", "mild", "moderate", "severe"]
STYLES = ("plain", "upset", "verbose", "reserved", "tangent", "pleasing")
SYMPTOMS = (
    "low_mood",
    "loss_of_interest",
    "low_energy",
    "sleep",
    "appetite",
    "concentration",
    "worthlessness",
    "guilt",
    "hopelessness",
    "irritability",
    "anxiety",
    "restlessness",
    "slowing",
    "tearfulness",
    "withdrawal",
    "indecision",
    "body_complaints",
    "self_neglect",
)
DISTORTIONS = (
    "all_or_nothing",
    "overgeneralising",
    "mind_reading",
    "catastrophising",
    "self_blame",
    "discounting_the_positive",
)


class Character(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every kind has."""

    name: Text
    age: Annotated[int, Meta(ge=16, le=110)]
    referral: Text
    kind: str = ""
    goal: str = ""
    notice: str = ""
    """A warning for the people who read the talk; no model sees it."""


class CoreBeliefs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Beliefs about oneself, in their three families."""

    helpless: list[Text] = []
    unlovable: list[Text] = []
    worthless: list[Text] = []

    @property
    def all(self) -> list[str]:
        return [*self.helpless, *self.unlovable, *self.worthless]


class Cognitive(Character, frozen=True, kw_only=True):
    """A cognitive conceptualisation diagram: one person in one situation (patientPsi)."""

    history: Text
    core_beliefs: CoreBeliefs
    intermediate_beliefs: Texts
    intermediate_beliefs_depressed: list[Text] = []
    coping_strategies: Texts
    situation: Text
    automatic_thoughts: Texts
    emotions: Texts
    behaviour: Texts


class Motive(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What could move the person, with the topic that leads to it, from the most specific to the widest."""

    topics: Annotated[list[Text], Meta(min_length=3, max_length=3)]
    sentence: Text


class Motivation(Character, frozen=True, kw_only=True):
    """A person in front of a change (consistentMI)."""

    behaviour: Text
    stage: Literal["precontemplation", "contemplation", "preparation", "action"] = "precontemplation"
    suggestibilities: Annotated[list[Annotated[int, Meta(ge=1, le=5)]], Meta(min_length=5, max_length=5)]
    personas: Annotated[list[Text], Meta(max_length=8)]
    beliefs: Annotated[list[Text], Meta(max_length=8)]
    plans: Annotated[list[Text], Meta(max_length=8)]
    motive: Motive

    def __post_init__(self) -> None:
        if not self.goal:
            raise ValueError("`goal` is missing: it is what the counsellor works on")


class CognitiveModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A situation and what it sets off."""

    situation: Text
    automatic_thoughts: Texts
    emotions: Texts
    behaviour: Text


class Mind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cognitive side of a depression profile."""

    life_history: Text
    core_beliefs: CoreBeliefs
    intermediate_beliefs: Texts
    coping_strategies: Texts
    models: Annotated[list[CognitiveModel], Meta(min_length=1, max_length=6)]


class Depression(Character, frozen=True, kw_only=True):
    """A psychological profile with the severity of each symptom (eeyore)."""

    gender: Text
    marital_status: Text
    occupation: Text
    situation: Text
    counselling_history: Text
    resistance: Literal["low", "medium", "high"]
    severity: Literal["minimal", "mild", "moderate", "severe"]
    symptoms: dict[str, Severity]
    distortions: dict[str, bool]
    suicidal_ideation: Severity
    homicidal_ideation: Severity
    mind: Mind

    def __post_init__(self) -> None:
        for wanted, given in ((SYMPTOMS, self.symptoms), (DISTORTIONS, self.distortions)):
            if set(given) != set(wanted):
                odd = min(set(given) ^ set(wanted))
                raise ValueError(f"`{odd}` is missing or unknown; there are {', '.join(wanted)}")


class Principled(Character, frozen=True, kw_only=True):
    """A persona whose behaviour follows principles that an expert wrote (roleplayDoh)."""

    persona: Text
    principles: Texts


class Levels(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Four inner levels, 1 to 10."""

    control: Annotated[int, Meta(ge=1, le=10)]
    efficacy: Annotated[int, Meta(ge=1, le=10)]
    awareness: Annotated[int, Meta(ge=1, le=10)]
    reward: Annotated[int, Meta(ge=1, le=10)]


class Drinking(Character, frozen=True, kw_only=True):
    """A person who drinks too much, with inner levels that move in the talk (simPatient)."""

    history: Text
    drinking: Text
    reasons: Texts
    levels: Levels


KINDS: dict[str, type[Character]] = {
    "cognitive": Cognitive,
    "motivation": Motivation,
    "depression": Depression,
    "principled": Principled,
    "drinking": Drinking,
}


def character_of(party: Party, kind: type[T]) -> T:
    """The party's character as this kind. Raises ProcedureError with the field that does not fit."""
    try:
        return msgspec.convert(dict(party.character), kind)
    except (msgspec.ValidationError, ValueError) as error:
        raise ProcedureError(
            f"the character of `{party.name}` does not fit its method `{party.method}`: {error}",
            where=f"parties.{party.name}.character",
            fix="compare it with the fields in docs/therapy.md, section Characters",
        ) from error
