"""What the tests of study files share: a described procedure, some files, and short ways to parse."""

from collections.abc import Mapping

import pytest

from trialrun.core import paths
from trialrun.core.errors import Mistake, StudyMistakes
from trialrun.core.reading.catalogue import FIRST_PARTY, PartyFacts, ProcedureFacts, SettingFacts
from trialrun.core.reading.parse import parse_study
from trialrun.core.study import Study

PROCEDURES: Mapping[str, ProcedureFacts] = {
    "conversation": ProcedureFacts(
        settings={
            "max_turns": SettingFacts(default=10, kind="int", minimum=1, help="Rounds of the talk."),
            "first": SettingFacts(default=FIRST_PARTY, kind="party"),
            "opening": SettingFacts(kind="text"),
            "mood": SettingFacts(kind="text", choices=("calm", "tense")),
            "end_words": SettingFacts(default=["[END]"], kind="texts"),
        },
        parties=PartyFacts(minimum=2, maximum=3),
        variables=("partner",),
        measures=("turns", "*.reasons"),
    ),
    "negotiation": ProcedureFacts(
        settings={
            "max_turns": SettingFacts(default=6, kind="int", minimum=1),
            "stakes": SettingFacts(kind="number", is_required=True, help="What is at stake, in USD."),
        },
        parties=PartyFacts(required=("buyer", "seller")),
    ),
}
MEASURES = ("*.words", "*.characters", "cost_usd")
FILES: Mapping[str, str] = {
    "prompts/therapist.md": "You are a {{ tone }} therapist.\n",
    "prompts/warm.md": "Be warm.\r\nAlways.\n",
    "prompts/cold.md": "Be cold.\n",
    "prompts/empty.md": "\n",
    "prompts/odd.md": "see other.md\n",
    "judges/disclosure.md": "How much does the client disclose?\n",
    "mine.py": "class Mine:\n    async def run(self, trial, lab): ...\n\nasync def plain(trial, lab): ...\n",
}
SMALL = """\
study: small
procedure: conversation
parties:
  therapist: {model: openai/gpt-5-mini, prompt: "You are a {{ tone }} therapist.", values: {tone: warm}}
  client: {model: anthropic/claude-haiku-4-5}
"""


def parse(
    text: str, overrides: Mapping[str, object] | None = None, files: Mapping[str, str] = FILES
) -> Study:
    return parse_study(
        text,
        file="study.yaml",
        read=lambda name: files.get(name.removeprefix("./")),
        listing=lambda: files,
        procedures=PROCEDURES,
        measures=MEASURES,
        overrides=overrides,
    )


def small(more: str = "", overrides: Mapping[str, object] | None = None) -> Study:
    """A small valid study with some more lines."""
    return parse(SMALL + more, overrides)


def at(study: Study, dotted: str) -> object:
    """What stands at a path of the resolved document."""
    return paths.get(study.document, paths.split(dotted, study.document))


def mistakes_of(text: str, overrides: Mapping[str, object] | None = None) -> tuple[Mistake, ...]:
    with pytest.raises(StudyMistakes) as caught:
        parse(text, overrides)
    return caught.value.mistakes


def mistake_of(text: str, overrides: Mapping[str, object] | None = None) -> Mistake:
    """The one mistake of a text."""
    found = mistakes_of(text, overrides)
    assert len(found) == 1, "\n\n".join(mistake.report() for mistake in found)
    return found[0]


def check_mistake(more: str, *, line: int, what: str, fix: str) -> None:
    """Lines added to the small study make this mistake, at this one of them, and no other line is blamed."""
    text = SMALL + more + "\n"
    number = len(SMALL.splitlines()) + line
    found = mistakes_of(text)
    first = next((mistake for mistake in found if what in mistake.what), found[0])
    assert what in first.what
    assert first.fix.startswith(fix)
    assert (first.file, first.line) == ("study.yaml", number)
    assert first.source == text.splitlines()[number - 1]
    assert {mistake.line for mistake in found} == {number}, "one mistake must not look like many"
