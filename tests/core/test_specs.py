"""What happens in a trial of one condition, and what changed between two plans."""

import timeit

import pytest

from tests.core.studies import SMALL, mistake_of, parse, small
from trialrun.core.design import Design
from trialrun.core.differences import differences
from trialrun.core.errors import UsageError
from trialrun.core.reading.specs import Specs
from trialrun.core.study import Judge, Party, Spec, Study

FACTORS = """\
factors:
  tone: {parties.therapist.values.tone: [warm, neutral]}
  who: {parties.client: {machine: {model: a/b}, person: {human: true}, tape: {script: [hello, bye]}}}
judges:
  d: {model: x/y, question: How much?, scale: [1, 5]}
  s: {model: x/y, question: Safe?, labels: [yes, no], temperature: null}
"""


def code(procedure: str) -> str:
    return f"code of {procedure}"


def spec_of(study: Study, **labels: str) -> Spec:
    condition = Design(study).by_labels(labels)
    assert condition is not None
    return Specs(study, code).spec_of(condition)


def test_levels_are_put_in_and_nouns_built() -> None:
    spec = spec_of(small(FACTORS), tone="neutral", who="tape")
    assert spec.procedure == "conversation"
    assert spec.parties["therapist"] == Party(
        name="therapist",
        model="openai/gpt-5-mini",
        prompt="You are a {{ tone }} therapist.",
        values={"tone": "neutral"},
    )
    assert spec.parties["client"] == Party(name="client", kind="script", lines=("hello", "bye"))
    assert spec_of(small(FACTORS), tone="warm", who="person").parties["client"] == Party(
        name="client", kind="human"
    )
    assert spec.judges["d"] == Judge(name="d", model="x/y", question="How much?", scale=(1, 5))
    assert spec.judges["s"] == Judge(
        name="s", model="x/y", question="Safe?", labels=("yes", "no"), temperature=None
    )
    assert spec.settings["max_turns"] == 10
    assert spec.measures == ("d", "s")


def test_every_condition_has_a_fingerprint_of_its_own_and_keeps_it() -> None:
    study = small(FACTORS)
    specs = Specs(study, code)
    prints = {condition.id: specs.spec_of(condition).fingerprint for condition in Design(study)}
    assert len(set(prints.values())) == 6
    again = Specs(small(FACTORS), code)
    assert prints == {condition.id: again.spec_of(condition).fingerprint for condition in Design(study)}


def print_of(text: str) -> str:
    study = parse(text)
    return Specs(study, code).spec_of(next(iter(Design(study)))).fingerprint


@pytest.mark.parametrize(
    "more",
    [
        "replicates: 5\n",
        "budget_usd: 3\n",
        "limits: {open_trials: 3}\n",
        "notice: x\n",
        "seed: 4\n",
        "question: why?\n",
        "prices: {a/b: {input: 1, output: 2}}\n",
        "rehearsal: {speed: 2}\n",
        "measures: [turns]\n",
        "settings: {max_turns: 10}\n",
    ],
)
def test_what_does_not_reach_a_trial_does_not_change_its_fingerprint(more: str) -> None:
    assert print_of(SMALL + more) == print_of(SMALL)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tone: warm", "tone: cold"),
        ("therapist.", "therapist!"),
        ("gpt-5-mini", "gpt-5"),
        ("}\n  client", ", temperature: 0}\n  client"),
        ("procedure: conversation", "settings: {max_turns: 9}\nprocedure: conversation"),
        ("study: small", "study: small\njudges: {d: {model: a/b, question: q, scale: [1, 2]}}"),
    ],
)
def test_what_reaches_a_trial_changes_its_fingerprint(old: str, new: str) -> None:
    assert old in SMALL
    assert print_of(SMALL.replace(old, new, 1)) != print_of(SMALL)


def test_the_code_of_the_procedure_is_part_of_the_fingerprint() -> None:
    study = small()
    condition = next(iter(Design(study)))
    one = Specs(study, lambda _: "old").spec_of(condition).fingerprint
    assert one != Specs(study, lambda _: "new").spec_of(condition).fingerprint


def test_a_file_gives_the_same_fingerprint_as_its_text() -> None:
    inline = SMALL.replace('"You are a {{ tone }} therapist."', "prompts/therapist.md")
    assert print_of(inline) == print_of(SMALL)


def test_levels_that_contradict_each_other_are_found() -> None:
    text = (
        "study: s\nprocedure: conversation\nparties: {a: {}, b: {model: x/y}}\nfactors:\n"
        "  h: {levels: {person: {parties.a.human: true}, machine: {}}}\n"
        "  m: {levels: {x: {parties.a.model: x/y}, z: {parties.a.model: x/z}, none: {}}}\n"
        "design: {list: [{h: person, m: none}, {h: machine, m: x}]}\n"
    )
    pairs = (("person", "none"), ("machine", "x"))
    assert len({spec_of(parse(text), h=h, m=m).fingerprint for h, m in pairs}) == 2
    crossed = text[: text.index("design")] + "design: {exclude: [{h: person, m: x}, {h: person, m: z}]}\n"
    mistake = mistake_of(crossed)
    assert mistake.what == "in the condition h=machine, m=none: `parties.a` has no model, human or script"
    assert mistake.fix.startswith("exclude this condition in `design`, or add")
    assert mistake.line == 4
    assert parse(crossed.replace("}]}", "}, {h: machine, m: none}]}")).name == "s"


def test_a_spec_with_changed_values() -> None:
    study = small(FACTORS)
    specs, condition = Specs(study, code), next(iter(Design(study)))
    changed = specs.spec_with(condition, {"settings.max_turns": 3, "parties.therapist.temperature": 0.5})
    assert changed.settings["max_turns"] == 3
    assert changed.parties["therapist"].temperature == 0.5
    assert changed.fingerprint != specs.spec_of(condition).fingerprint
    assert specs.spec_with(condition, {}) == specs.spec_of(condition)


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        ({"replicates": 3}, "`replicates` does not reach a trial"),
        ({"parties.therapist.temprature": 3}, "`parties.therapist` has no key `temprature`"),
        ({"parties.therapist.model.x": 3}, "`parties.therapist.model.x` goes through a value that is no map"),
        ({"parties.therapist.prompt": "prompts/warm.md"}, "`parties.therapist.prompt` names a file"),
    ],
)
def test_a_wrong_change_is_refused(overrides: dict[str, object], what: str) -> None:
    study = small()
    with pytest.raises(UsageError, match=what.replace(".", r"\.")):
        Specs(study, code).spec_with(next(iter(Design(study))), overrides)


def test_only_so_many_specs_are_kept() -> None:
    study = small(FACTORS)
    asked: list[str] = []
    specs = Specs(study, lambda name: asked.append(name) or "x", kept=2)
    conditions = list(Design(study))
    first = specs.spec_of(conditions[0])
    assert specs.spec_of(conditions[0]) is first
    for condition in conditions[1:]:
        specs.spec_of(condition)
    assert specs.spec_of(conditions[0]) is not first
    assert specs.spec_of(conditions[0]) == first
    assert asked == ["conversation"]


@pytest.mark.long
def test_a_spec_is_made_in_well_under_150_microseconds() -> None:
    study = parse((SMALL + FACTORS).replace("You are", "You are " + "very " * 2000))
    condition = next(iter(Design(study)))
    specs = Specs(study, code, kept=0)
    assert min(timeit.repeat(lambda: specs.spec_of(condition), number=200, repeat=5)) / 200 < 150e-6


# --- differences --------------------------------------------------------------------------------------------------


def test_equal_plans_do_not_differ() -> None:
    assert differences(small().document, small().document) == []
    assert differences({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []


def test_changes_are_named_by_path() -> None:
    changes = differences(small().document, small("replicates: 3\nnotice: hello\n").document)
    assert [(c.path, c.kind, c.old, c.new) for c in changes] == [
        ("notice", "added", None, "hello"),
        ("replicates", "changed", 1, 3),
    ]
    assert [str(c) for c in changes] == ["notice: added `hello`", "replicates: `1` → `3`"]
    assert str(differences({"a": {"b": [1]}}, {"a": {}})[0]) == "a.b: removed `[1]`"


def test_long_texts_show_the_lines_that_differ() -> None:
    old = "\n".join(f"line {n} of the prompt" for n in range(100))
    (change,) = differences({"prompt": old}, {"prompt": old.replace("line 50 of", "line fifty of")})
    assert change.diff.splitlines() == [
        "@@ -50,3 +50,3 @@",
        " line 49 of the prompt",
        "-line 50 of the prompt",
        "+line fifty of the prompt",
        " line 51 of the prompt",
    ]
    (all_new,) = differences({"prompt": old}, {"prompt": old.replace("line", "row")})
    assert all_new.diff.splitlines()[-1] == "… 177 more lines"


def test_a_changed_type_is_a_change() -> None:
    assert [c.path for c in differences({"a": 1, "b": True}, {"a": 1.0, "b": 1})] == ["a", "b"]
