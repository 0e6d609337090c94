"""Methods, characters and styles of a party: what a study file may say about them, and what the study then holds."""

from collections.abc import Mapping
from typing import Any

import pytest

from trialrun.core.design import Design
from trialrun.core.errors import StudyMistakes
from trialrun.core.reading.catalogue import MethodFacts, PartyFacts, ProcedureFacts
from trialrun.core.reading.parse import parse_study
from trialrun.core.reading.specs import Specs, own_methods
from trialrun.core.reading.writing import write_yaml
from trialrun.core.study import Study

METHODS = {
    "plays": MethodFacts(character="hero", styles=("loud", "soft")),
    "rules": MethodFacts(needs=""),
    "reads": MethodFacts(needs="script"),
}
PROCEDURES = {
    "stage": ProcedureFacts(parties=PartyFacts(required=("one", "other"), methods={"one": METHODS})),
    "plain": ProcedureFacts(),
}
CHARACTERS: Mapping[str, Mapping[str, object]] = {
    "ajax": {"kind": "hero", "name": "Ajax"},
    "nurse": {"kind": "helper", "name": "Eurykleia"},
}
FILES = {
    "heroes/dido.yaml": "name: Dido\nfears: [fire]\n",
    "bad.yaml": "- a\n- b\n",
    "./mine.py": "class Mine: ...",
}


def parse(one: str, *, procedure: str = "stage", rest: str = "") -> Study:
    text = f"study: s\nprocedure: {procedure}\nparties:\n  one: {one}\n  other: {{model: x/m}}\n{rest}"
    return parse_study(text, file="s.yaml", read=FILES.get, procedures=PROCEDURES, characters=CHARACTERS)


def party(study: Study) -> dict[str, Any]:
    parties: Any = study.document["parties"]
    return parties["one"]


def complaint(one: str, **more: Any) -> str:
    with pytest.raises(StudyMistakes) as caught:
        parse(one, **more)
    return caught.value.report()


def test_a_named_character_stands_in_the_study_itself():
    study = parse("{model: x/m, method: plays, character: ajax, style: loud}")
    assert party(study)["character"] == CHARACTERS["ajax"]
    assert study.document["sources"] == {"parties.one.character": "ajax"}
    again = parse_study(
        write_yaml(dict(study.document)), file="r.yaml", read=lambda _: None, procedures=PROCEDURES
    )
    assert again.document == study.document, "an archive needs neither our material nor the user's files"


def test_a_character_may_be_a_file_or_stand_in_the_study():
    assert party(parse("{model: x/m, method: plays, character: heroes/dido.yaml}"))["character"] == {
        "name": "Dido",
        "fears": ["fire"],
    }
    assert party(parse("{model: x/m, method: plays, character: {name: I}}"))["character"] == {"name": "I"}


def test_levels_are_named_after_characters_and_set_what_they_are():
    rest = "factors: {who: {parties.one.character: [ajax, heroes/dido.yaml]}}\n"
    (factor,) = parse("{model: x/m, method: plays}", rest=rest).factors
    assert [(level.label, level.value) for level in factor.levels] == [("ajax", "ajax"), ("dido", "dido")]
    assert factor.levels[0].sets == (("parties.one.character", CHARACTERS["ajax"]),)


def test_a_changed_character_is_a_changed_plan():
    def fingerprint(one: str) -> str:
        study = parse(one)
        return Specs(study, lambda _: "").spec_of(next(iter(Design(study)))).fingerprint

    first = fingerprint("{model: x/m, method: plays, character: {name: I}}")
    assert first != fingerprint("{model: x/m, method: plays, character: {name: Me}}")
    assert first == fingerprint("{method: plays, character: {name: I}, model: x/m}")


def test_the_code_of_a_users_method_counts_in_the_fingerprint():
    study = parse("{model: x/m, method: './mine.py:Mine'}", rest="")
    assert own_methods(study.document) == {"./mine.py:Mine"}
    condition = next(iter(Design(study)))
    before, after = (Specs(study, code.__add__).spec_of(condition).fingerprint for code in ("a", "b"))
    assert before != after


@pytest.mark.parametrize(
    ("one", "said"),
    [
        ("{model: x/m, method: playz}", "did you mean `plays`?"),
        ("{model: x/m, method: plays}", "needs a character"),
        ("{method: plays, character: ajax}", "needs a model"),
        ("{method: reads}", "needs a script"),
        ("{model: x/m, method: plays, character: ajaks}", "did you mean `ajax`?"),
        ("{model: x/m, method: plays, character: nurse}", "kind `hero`, not `helper`"),
        ("{model: x/m, method: plays, character: ajax, style: soft2}", "did you mean `soft`?"),
        ("{model: x/m, method: plays, character: gone.yaml}", "there is no file `gone.yaml`"),
        ("{model: x/m, method: plays, character: bad.yaml}", "`bad.yaml` is no character"),
        ("{method: rules, character: ajax}", "plays no character"),
        ("{method: rules, temperature: 1.0}", "means nothing for a party without a model"),
        ("{method: rules, style: loud}", "has no style `loud`"),
        ("{model: x/m, style: loud}", "`parties.one.style` needs `parties.one.method`"),
        ("{model: x/m, method: './gone.py:Mine'}", "there is no file `./gone.py`"),
        ("{model: x/m, method: './mine.py:Thine'}", "defines no `Thine`"),
    ],
)
def test_what_does_not_suit_a_method_is_a_mistake_with_a_fix(one: str, said: str):
    report = complaint(one)
    assert said in report
    assert "s.yaml:" in report
    assert "fix:" in report


def test_a_method_means_nothing_where_the_procedure_has_none():
    assert "means nothing to the procedure `plain`" in complaint(
        "{model: x/m, method: plays}", procedure="plain"
    )
    rest = "factors: {who: {parties.other.character: [ajax]}}\n"
    assert "`parties.other.character` means nothing" in complaint("{model: x/m}", rest=rest)


def test_a_method_that_needs_nothing_may_stand_alone():
    assert party(parse("{method: rules}")) == {"method": "rules"}
    levels = "factors: {how: {levels: {a: {}, b: {parties.one: {method: rules}}}}}\n"
    assert len(parse("{model: x/m, method: plays, character: ajax}", rest=levels).factors[0].levels) == 2


def test_the_notices_of_procedure_and_characters_are_those_of_the_study():
    sad = "{kind: hero, notice: Sad.}"
    text = (
        "study: s\nprocedure: stage\nparties: {one: {model: x/m}}\n"
        f"factors: {{who: {{parties.one.character: {{a: {sad}, b: {{notice: Grim.}}, c: {{x: 1}}}}}}}}\n"
    )
    facts = {"stage": ProcedureFacts(notice="Not real.", are_settings_free=True)}
    study = parse_study(text, file="s.yaml", read=FILES.get, procedures=facts)
    assert study.notice == "Not real. Grim. Sad."
    own = parse_study(f"notice: Mine.\n{text}", file="s.yaml", read=FILES.get, procedures=facts)
    assert own.notice == "Mine. Grim. Sad."
