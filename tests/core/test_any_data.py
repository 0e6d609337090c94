"""Whatever a study file says, it is a study or it has mistakes; and a study keeps the promises of one."""

import copy
from random import Random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.studies import FILES, MEASURES, PROCEDURES
from tests.core.test_parse import FULL
from trialrun.core.design import Design
from trialrun.core.errors import StudyMistakes
from trialrun.core.reading.parse import archived, parse_study, study_of
from trialrun.core.reading.source import read_source
from trialrun.core.reading.specs import Specs
from trialrun.core.reading.writing import write_yaml
from trialrun.core.study import Study

OWN: dict[str, Any] = {
    "study": "own",
    "procedure": "./mine.py:Mine",
    "parties": {"a": {"script": ["x"]}, "b": {"human": True}},
    "factors": {"x": [1, 2, {"a": 3}], "y": {"parties.a": {"one": {"model": "x/y"}, "two": {"human": True}}}},
    "settings": {"k": {"l": [1, {"m": 2}]}},
    "design": {"list": [{"x": 1, "y": "one"}]},
}
BASES: list[dict[str, Any]] = [OWN, read_source(FULL, file="").data]  # pyright: ignore[reportAssignmentType]  # a map
LEAVES: list[object] = [
    *(None, True, False, 0, 1, -1, 5, 2.5, 10**30, float("nan"), "\ud800", object(), (1, 2), {1: 2}),
    *("", "x", "a/b", "warm", "tone", "1e3", "$5", "{{ x }}", "{{", "{% for a", "[1, 2]", "prompts/warm.md"),
    *("parties.client.model", "settings.max_turns", "procedure", "conversation", "negotiation"),
    *([], {}, [1], ["a", "b"], [[]], [{}], {"a": 1}, {"x": [1, 2]}, [{"tone": "warm"}], [["tone", "model"]]),
    *({"levels": {"a": {}}}, {"parties.client.model": ["a/b", "a/c"]}, {"settings.max_turns": [1, 2]}),
    {"levels": {"a": {"parties.client.prompt": "x"}, "b": {"parties": {}}}},
]
KEYS = ["xx", "parties.client.values.q", "settings.q", "levels", "values", "model", "9", ""]


def mutated(random: Random) -> dict[str, Any]:
    """A valid document with a few values replaced, removed or renamed."""
    document = copy.deepcopy(random.choice(BASES))
    for _ in range(random.choice([1, 1, 2, 3])):
        spots: list[tuple[Any, Any]] = list(places(document))
        if not spots:
            break
        holder, key = random.choice(spots)
        match random.randrange(6):
            case 0:
                del holder[key]
            case 1 if isinstance(key, str):
                holder[random.choice([*KEYS, f"{key}s"])] = holder.pop(key)
            case _:
                holder[key] = copy.deepcopy(random.choice(LEAVES))
    return document


def places(data: Any) -> Any:
    entries = list(
        data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    )
    for key, value in entries:
        yield data, key
        yield from places(value)


@settings(max_examples=300)
@given(st.integers(0, 10**9))
def test_any_document_is_a_study_or_has_mistakes_and_nothing_else_happens(seed: int) -> None:
    try:
        study = study_of(mutated(Random(seed)), read=read, procedures=PROCEDURES, measures=MEASURES)
    except StudyMistakes as error:
        reported = error.report()
    else:
        reported = ""
        check_promises(study)
    assert reported.count("error: ") == reported.count(" fix: ")


def check_promises(study: Study) -> None:
    stored = msgspec.json.decode(msgspec.json.encode(study.document, order="deterministic"))
    again = archived(stored)
    assert (again.document, again.factors, again.zips) == (study.document, study.factors, study.zips)
    resolved = parse_study(write_yaml(stored), file="", read=read, procedures=PROCEDURES, measures=MEASURES)
    assert (resolved.document, resolved.factors) == (study.document, study.factors)
    design, specs = Design(study), Specs(study, lambda _: "code")
    conditions = list(design)
    assert len({condition.id for condition in conditions}) == len(conditions) == design.count()
    assert all(specs.spec_of(condition).fingerprint for condition in conditions[:500])


def read(name: str) -> str | None:
    return FILES.get(name.removeprefix("./"))
