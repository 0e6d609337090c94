"""Files of entries as levels of a factor."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.studies import SMALL, parse
from trialrun.core.errors import Mistake, StudyMistakes
from trialrun.core.reading.catalogue import PartyFacts, ProcedureFacts, SettingFacts
from trialrun.core.reading.entries import entries_of, read_entries
from trialrun.core.reading.parse import archived, parse_study
from trialrun.core.study import Study

PROCEDURE = ProcedureFacts(
    settings={
        "question": SettingFacts(
            kind="entry",
            keys={
                "id": SettingFacts(kind="text"),
                "text": SettingFacts(kind="text", is_required=True),
                "family": SettingFacts(kind="text"),
                "tags": SettingFacts(kind="texts"),
                "expected": SettingFacts(kind="text", choices=("yes", "no")),
            },
        )
    },
    parties=PartyFacts(required=("subject",)),
)
LINES = """\
# Fire
Is it safe to leave a candle alone?

   # Water
Can I drink from the tap?
"""
LIST = """\
- {id: candle, text: Is it safe to leave a candle alone?, family: fire, expected: no, tags: [home, night]}
- id: tap
  text: Can I drink from the tap?
  family: water
  expected: yes
- {id: stove, text: May the stove stay on?, family: fire, expected: no}
"""
JSON_LINES = """\
{"id": "candle", "text": "Is it safe to leave a candle alone?", "family": "fire", "expected": "no"}

# a comment
{"id": "tap", "text": "Can I drink from the tap?", "family": "water", "expected": "yes"}
"""
FILES = {"q.txt": LINES, "q.yaml": LIST, "q.jsonl": JSON_LINES}


def study(form: str, files: Mapping[str, str] = FILES) -> Study:
    text = f"study: s\nprocedure: p\nparties: {{subject: {{model: a/b}}}}\nfactors:\n  question: {form}\n"
    return parse_study(
        text, file="study.yaml", read=files.get, listing=lambda: files, procedures={"p": PROCEDURE}
    )


def mistakes(form: str, files: Mapping[str, str] = FILES) -> tuple[Mistake, ...]:
    with pytest.raises(StudyMistakes) as caught:
        study(form, files)
    return caught.value.mistakes


def labels(form: str, files: Mapping[str, str] = FILES) -> list[str]:
    return [level.label for level in study(form, files).factors[0].levels]


def test_each_line_of_a_text_file_is_a_level_and_comments_are_not():
    levels = study("{from: q.txt}").factors[0].levels
    assert [dict(level.sets) for level in levels] == [
        {"settings.question": "Is it safe to leave a candle alone?"},
        {"settings.question": "Can I drink from the tap?"},
    ]


@pytest.mark.parametrize("file", ["q.yaml", "q.jsonl"])
def test_entries_with_ids_are_levels_of_that_name(file: str):
    levels = study(f"{{from: {file}}}").factors[0].levels
    assert [level.label for level in levels][:2] == ["candle", "tap"]
    assert levels[1].value == "tap"
    assert dict(levels[1].sets)["settings.question"] == {
        "id": "tap",
        "text": "Can I drink from the tap?",
        "family": "water",
        "expected": "yes",
    }


def test_a_map_of_entries_gives_them_their_names():
    files = {"q.yaml": "candle: Is it safe?\ntap: {text: Can I drink it?, expected: yes}\n"}
    levels = study("{from: q.yaml}", files).factors[0].levels
    assert [level.label for level in levels] == ["candle", "tap"]
    assert dict(levels[0].sets) == {"settings.question": {"id": "candle", "text": "Is it safe?"}}


def test_entries_are_picked_by_their_fields_and_from_the_top():
    assert labels("{from: q.yaml, where: {family: fire}}") == ["candle", "stove"]
    assert labels("{from: q.yaml, where: {family: [fire, water], expected: yes}}") == ["tap"]
    assert labels("{from: q.yaml, where: {tags: [night]}}") == ["candle"]
    assert labels("{from: q.yaml, where: {family: [fire]}, first: 1}") == ["candle"]
    assert labels("{from: q.yaml, first: 2}") == ["candle", "tap"]


def test_another_path_may_be_set():
    found = parse(
        SMALL + "factors:\n  mood: {from: moods.txt, to: parties.therapist.values.tone}\n",
        files={"moods.txt": "warm\ncold\n"},
    )
    assert [dict(level.sets) for level in found.factors[0].levels] == [
        {"parties.therapist.values.tone": "warm"},
        {"parties.therapist.values.tone": "cold"},
    ]


def test_the_texts_are_in_the_resolved_study_and_where_they_came_from():
    found = study("{from: q.yaml, first: 1}")
    assert found.document["sources"] == {"factors.question.from": "q.yaml"}
    again = archived(found.document)
    assert again.factors == found.factors
    assert "candle alone" in str(found.document["factors"])


def test_a_mistake_in_an_entry_is_reported_at_its_line_of_its_file():
    broken = LIST.replace("expected: yes", "expected: maybe").replace("family: water", "famly: water")
    found = mistakes("{from: q.yaml}", {"q.yaml": broken})
    assert [(each.file, each.line) for each in found] == [("q.yaml", 4), ("q.yaml", 5)]
    assert found[0].fix == "did you mean `family`?"
    assert found[0].source == "  famly: water"
    (line,) = mistakes("{from: q.jsonl}", {"q.jsonl": JSON_LINES.replace('"yes"', '"ja"')})
    assert (line.file, line.line) == ("q.jsonl", 4)


def test_text_that_is_no_data_is_reported_at_its_line():
    (found,) = mistakes("{from: q.jsonl}", {"q.jsonl": '{"id": "a", "text": "b"}\n{"id": "c"\n'})
    assert (found.file, found.line) == ("q.jsonl", 2)
    (found,) = mistakes("{from: q.yaml}", {"q.yaml": "- a\n- [b]\n"})
    assert (found.file, found.line, found.what) == ("q.yaml", 2, "entry 2 is neither a text nor a map")
    (found,) = mistakes("{from: q.yaml}", {"q.yaml": "just words\n"})
    assert found.what == "this file holds no list of entries"


def test_two_entries_with_one_id_are_a_mistake_at_the_second():
    (found,) = mistakes("{from: q.yaml}", {"q.yaml": "- {id: a, text: One?}\n- {id: a, text: Two?}\n"})
    assert (found.file, found.line) == ("q.yaml", 2)
    assert "two levels called `a`" in found.what


@pytest.mark.parametrize(
    ("form", "what", "fix"),
    [
        ("{from: p.yaml}", "there is no file `p.yaml`", "did you mean `q.yaml`?"),
        ("{from: 3}", "`from` must be the name of a file", "write"),
        ("{from: q.yaml, were: {family: fire}}", "has no key `were`", "did you mean `where`?"),
        ("{from: q.yaml, where: {famly: fire}}", "no entry has a field `famly`", "did you mean `family`?"),
        ("{from: q.yaml, where: {family: fir}}", "no entry has the family `fir`", "did you mean `fire`?"),
        ("{from: q.txt, where: {family: fire}}", "no entry has a field `family`", "remove it"),
        ("{from: q.yaml, where: fire}", "`where` must be a map", "write"),
        ("{from: q.yaml, where: {family: water, id: stove}}", "no entry has the id `stove`", "use `tap`"),
        ("{from: q.yaml, first: 4}", "`first` asks for 4 of 3", "write 3"),
        ("{from: q.yaml, first: 0}", "`first` must be a whole number from 1", "give"),
        ("{from: q.yaml, to: settings.qestion}", "has no setting `qestion`", "did you mean `question`?"),
        ("{from: empty.txt}", "this file has no entries", "write one"),
    ],
)
def test_mistakes_of_the_form_say_what_to_do(form: str, what: str, fix: str):
    found = mistakes(form, {**FILES, "empty.txt": "# nothing\n"})
    assert len(found) == 1, found
    assert what in found[0].what
    assert found[0].fix.startswith(fix)
    assert (found[0].file, found[0].line) == ("study.yaml", 5)


@given(st.lists(st.sampled_from(["", "  ", "# note", "Is it safe?", "  May I?  "])))
def test_every_filled_line_is_an_entry_and_nothing_else(lines: list[str]):
    source = read_entries("\n".join(lines), file="q.txt")
    wanted = [line.strip() for line in lines if line.strip() and not line.strip().startswith("#")]
    assert entries_of(source) == wanted
    for index, entry in enumerate(wanted):
        line = source.line_of((index,))
        assert line is not None
        assert lines[line - 1].strip() == entry


def test_a_thousand_questions_are_read_quickly():
    import time

    began = time.process_time()
    many = "\n".join(f"Is thing number {number} safe to eat?" for number in range(1000))
    assert len(study("{from: q.txt}", {"q.txt": many}).factors[0].levels) == 1000
    assert time.process_time() - began < 4.0
