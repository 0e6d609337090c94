"""The forms of a factor, and what becomes of them."""

import pytest

from tests.core.studies import SMALL, parse, small
from trialrun.core.reading.labels import label_of, together
from trialrun.core.study import Factor, Study


def factor_of(form: str) -> Factor:
    return small(f"factors:\n  f: {form}\n").factors[0]


def shown(factor: Factor) -> list[tuple[str, object, dict[str, object]]]:
    return [(level.label, level.value, dict(level.sets)) for level in factor.levels]


def test_one_path_with_a_list_of_values() -> None:
    assert shown(factor_of("{parties.client.temperature: [0, 0.5]}")) == [
        ("0", 0.0, {"parties.client.temperature": 0.0}),
        ("0.5", 0.5, {"parties.client.temperature": 0.5}),
    ]


def test_one_path_with_named_levels() -> None:
    assert shown(factor_of("{parties.client.model: {cheap: a/b, dear: a/c}}")) == [
        ("cheap", "cheap", {"parties.client.model": "a/b"}),
        ("dear", "dear", {"parties.client.model": "a/c"}),
    ]


def test_several_paths_vary_together_by_position() -> None:
    assert shown(factor_of("{settings.max_turns: [4, 8], parties.client.max_tokens: [100, 300]}")) == [
        ("100+4", "100+4", {"parties.client.max_tokens": 100, "settings.max_turns": 4}),
        ("300+8", "300+8", {"parties.client.max_tokens": 300, "settings.max_turns": 8}),
    ]


def test_several_paths_vary_together_by_name() -> None:
    form = "{settings.max_turns: {b: 8, a: 4}, parties.client.max_tokens: {a: 100, b: 300}}"
    assert {label: sets for label, _, sets in shown(factor_of(form))} == {
        "a": {"parties.client.max_tokens": 100, "settings.max_turns": 4},
        "b": {"parties.client.max_tokens": 300, "settings.max_turns": 8},
    }


def test_two_parties_with_the_same_value_need_one_label() -> None:
    found = factor_of("{parties.client.model: [a/b, a/c], parties.therapist.model: [a/b, a/c]}")
    assert [level.label for level in found.levels] == ["a/b", "a/c"]


def test_levels_that_say_what_they_set() -> None:
    warm = "{parties.therapist.prompt: prompts/warm.md, parties.therapist.temperature: 0.9}"
    form = f"{{levels: {{warm: {warm}, plain: {{}}}}}}"
    assert shown(factor_of(form)) == [
        (
            "warm",
            "warm",
            {"parties.therapist.prompt": "Be warm.\nAlways.", "parties.therapist.temperature": 0.9},
        ),
        ("plain", "plain", {}),
    ]


def test_levels_may_say_what_a_procedure_sees() -> None:
    form = (
        "{levels: {low: {settings.max_turns: 2}, high: {settings.max_turns: 8}}, values: {low: 2, high: 8}}"
    )
    assert [(level.label, level.value) for level in factor_of(form).levels] == [("low", 2), ("high", 8)]


def test_a_list_alone_is_a_setting_of_that_name() -> None:
    study = parse("study: s\nprocedure: ./mine.py:Mine\nfactors: {framing: [gain, loss]}\n")
    assert shown(study.factors[0]) == [
        ("gain", "gain", {"settings.framing": "gain"}),
        ("loss", "loss", {"settings.framing": "loss"}),
    ]


def test_prompt_files_are_read_and_give_short_labels() -> None:
    found = factor_of("{parties.therapist.prompt: [prompts/warm.md, prompts/cold.md]}")
    assert [(level.label, level.value) for level in found.levels] == [
        ("warm", "Be warm.\nAlways."),
        ("cold", "Be cold."),
    ]


def test_a_level_may_replace_a_whole_party() -> None:
    found = factor_of("{parties.client: {machine: {model: a/b}, person: {human: true}}}")
    assert shown(found)[1] == ("person", "person", {"parties.client": {"human": True}})


def test_a_factor_may_supply_what_the_file_leaves_out() -> None:
    study = parse(
        "study: s\nprocedure: conversation\nparties: {a: {}, b: {model: x/y}}\n"
        "factors: {m: {parties.a.model: [x/y, x/z]}}\n"
    )
    assert [level.label for level in study.factors[0].levels] == ["x/y", "x/z"]


def test_a_factor_may_vary_the_procedure_and_settings_of_either_are_known() -> None:
    study = parse(
        "study: s\nprocedure: conversation\nparties: {buyer: {model: x/y}, seller: {model: x/y}}\n"
        "settings: {stakes: 5, mood: calm}\nfactors: {how: {procedure: [conversation, negotiation]}}\n"
    )
    settings = study.document["settings"]
    # Only where both agree is there a default; they differ in max_turns.
    assert settings == {"end_words": ["[END]"], "first": "buyer", "mood": "calm", "stakes": 5}


def test_one_level_is_allowed_and_noted() -> None:
    study = small("factors: {f: {settings.max_turns: [3]}}\n")
    assert study.notes == ("the factor `f` has one level, `3`: it does not vary",)


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("warm", "warm"),
        ("", "(empty)"),
        (True, "true"),
        (None, "null"),
        (3, "3"),
        (0.7, "0.7"),
        ({"b": 1, "a": "x"}, "a=x,b=1"),
        ([1, "a"], "[1,a]"),
    ],
)
def test_short_values_are_their_own_label(value: object, label: str) -> None:
    assert label_of(value) == label


def test_long_texts_and_objects_have_short_stable_labels() -> None:
    one = label_of("You are a very warm therapist who listens.\nAlways.")
    two = label_of("You are a very warm therapist who listens.\nNever.")
    assert one.startswith("You are a very warm ther~")
    assert one != two
    assert len(one) <= 40
    assert label_of({"a": "x" * 50, "b": 1}) == label_of({"b": 1, "a": "x" * 50})
    assert len(together(["a" * 30, "b" * 30])) <= 40


def test_the_design_may_name_a_level_by_its_value() -> None:
    study = small(
        "factors:\n  p: {parties.therapist.prompt: [prompts/warm.md, prompts/cold.md]}\n"
        "  t: {settings.max_turns: [1, 2]}\n"
        "design: {exclude: [{p: prompts/warm.md, t: 2}]}\n"
    )
    assert study.excluded == ({"p": "warm", "t": "2"},)


def test_values_are_brought_to_the_type_of_their_place() -> None:
    one, other = (small(f"factors: {{t: {{parties.client.temperature: [{v}, 2]}}}}\n") for v in ("1", "1.0"))
    assert one.factors[0].levels[0].sets == other.factors[0].levels[0].sets


def test_zipped_levels_meet_in_the_order_of_the_file() -> None:
    text = "factors:\n  a: {settings.max_turns: [2, 1]}\n  b: {parties.client.values.x: [p, q]}\n"
    text += "design: {zip: [[a, b]]}\n"
    assert pairs(small(text)) == {("1", "q"), ("2", "p")}
    assert pairs(parse(SMALL + text.replace("[2, 1]", "[1, 2]"))) == {("1", "p"), ("2", "q")}


def pairs(study: Study) -> set[tuple[str, ...]]:
    from trialrun.core.design import Design

    return {tuple(condition.labels.values()) for condition in Design(study)}
