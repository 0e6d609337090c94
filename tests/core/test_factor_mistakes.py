"""Every mistake in what is varied and how levels meet: what is said, at which line, and the fix."""

import pytest

from tests.core.studies import check_mistake

ONE = "factors: {a: {settings.max_turns: [1, 2]}}\n"
TWO = "factors: {a: {settings.max_turns: [1, 2]}, b: {parties.client.values.x: [1, 2]}}\n"
LEVELS = "factors:\n  a:\n    levels:\n      one: "


@pytest.mark.parametrize(
    ("more", "line", "what", "fix"),
    [
        # --- factors
        (
            "factors:\n  tone: {parties.therapst.values.tone: [a, b]}",
            2,
            "there is no party `therapst`",
            "did you mean `parties.therapist.values.tone`?",
        ),
        (
            "factors:\n  t: {parties.client.temprature: [0, 1]}",
            2,
            "`parties.client` has no key `temprature`",
            "did you mean `temperature`?",
        ),
        (
            "factors:\n  t:\n    parties.client.temperature:\n    - 0\n    - hot",
            5,
            "`parties.client.temperature` must be a number, not the text `hot`",
            "give a number",
        ),
        (
            "factors:\n  t:\n    parties.client.temperature:\n      low: 0\n      high: 7",
            5,
            "`parties.client.temperature` must be at most 2",
            "give a value",
        ),
        (
            "factors:\n  n: {replicates: [1, 2]}",
            2,
            "a factor cannot vary `replicates`: `replicates` says how often",
            "vary something under",
        ),
        (
            "factors:\n  b: {budget_usd: [1, 2]}",
            2,
            "a factor cannot vary `budget_usd`: `budget_usd` caps the whole",
            "vary something under",
        ),
        (
            "factors:\n  b: {limits.open_trials: [1, 2]}",
            2,
            "a factor cannot vary `limits.open_trials`: `limits` changes how fast",
            "vary",
        ),
        ("factors:\n  b: {seed: [1, 2]}", 2, "a factor cannot vary `seed`", "vary something under"),
        (
            "factors:\n  b: {partys.client.model: [a/b, a/c]}",
            2,
            "`partys.client.model` is no path of a study",
            "did you mean `parties`?",
        ),
        (
            "factors:\n  b: {settings: [{max_turns: 1}, {max_turns: 2}]}",
            2,
            "`settings` is not one thing that can vary",
            "name what varies",
        ),
        (
            "factors:\n  b: {settings.max_turn: [1, 2]}",
            2,
            "the procedure `conversation` has no setting `max_turn`",
            "did you mean `max_turns`?",
        ),
        (
            "factors:\n  mood: [calm, angry]",
            2,
            "`settings.mood` cannot be `angry`",
            "use one of `calm`, `tense`",
        ),
        (
            "factors:\n  moood: [calm, tense]",
            2,
            "the procedure `conversation` has no setting `moood`",
            "did you mean `mood`?",
        ),
        (
            "factors:\n  f: {parties.client.model.name: [a, b]}",
            2,
            "`parties.client.model.name` goes through a value that is no map",
            "shorten the path",
        ),
        (
            "factors:\n  e: {parties.client.values.x: []}",
            2,
            "the factor `e` has no levels",
            "give at least one value",
        ),
        ("factors:\n  e: {}", 2, "the factor `e` varies nothing", "give a path with its values"),
        ("factors:\n  e: {levels: {}}", 2, "the factor `e` has no levels", "name at least one"),
        (
            "factors:\n  e: {parties.client.values.x: 5}",
            2,
            "`parties.client.values.x` of the factor `e` needs a list",
            "write [first, second]",
        ),
        (
            "factors:\n  e: {parties.client.values.x: [1, 1]}",
            2,
            "the factor `e` has two levels called `1`",
            "remove one, or name",
        ),
        (
            "factors:\n  e: {parties.client.values.x: {a: 1, b: 1}}",
            2,
            "the levels `a` and `b` of `e` set the same: nothing would vary",
            "change one",
        ),
        (
            "factors:\n  e:\n    parties.client.max_tokens: [1, 2]\n    settings.max_turns: [1]",
            4,
            "`settings.max_turns` has 1 value and `parties.client.max_tokens` has 2",
            "give both the same number",
        ),
        (
            "factors:\n  e:\n    parties.client.max_tokens: {a: 1, b: 2}\n    settings.max_turns: {a: 1, c: 2}",
            4,
            "`settings.max_turns` and `parties.client.max_tokens` of the factor `e` name different levels",
            "name the same levels in both; `b` is in one only",
        ),
        (
            "factors:\n  e:\n    parties.client.max_tokens: {a: 1, b: 2}\n    settings.max_turns: [1, 2]",
            3,
            "the factor `e` mixes lists and named levels",
            "write all its paths the same way",
        ),
        (
            "factors:\n  a: {parties.client.max_tokens: [1, 2]}\n  b: {parties.client.max_tokens: [3, 4]}",
            3,
            "the factors `a` and `b` both set `parties.client.max_tokens`",
            "let one factor set it",
        ),
        (
            "factors:\n  a: {parties.client.values.x: [1, 2]}\n  b: {parties.client.values: [{x: 1}, {x: 2}]}",
            3,
            "the factors `a` and `b` both set `parties.client.values.x`",
            "let one factor set it",
        ),
        (
            LEVELS + "{parties.client: {model: x/y}, parties.client.model: x/z}\n      two: {}",
            4,
            "the level `one` of `a` sets `parties.client` and something below it",
            "set it once",
        ),
        (
            "factors:\n  a:\n    levels:\n      one: {parties.client.promt: x}\n      two: {}",
            4,
            "`parties.client` has no key `promt`",
            "did you mean `prompt`?",
        ),
        (
            "factors:\n  a:\n    levels:\n      one: {parties.client.prompt: prompts/hot.md}\n      two: {}",
            4,
            "there is no file `prompts/hot.md`",
            "did you mean",
        ),
        (
            "factors:\n  a:\n    levels:\n      one: {parties.client.human: true}\n      two: {}",
            4,
            "`parties.client` has `model` and `human`",
            "keep one",
        ),
        (
            "factors:\n  p: {procedure: [conversation, negotation]}",
            2,
            "there is no procedure `negotation`",
            "did you mean `negotiation`?",
        ),
        (
            'factors:\n  a: {parties.client.values.x: {"": 1, b: 2}}',
            2,
            "`` cannot be the name of a level",
            "use at most 60",
        ),
        # --- design
        (
            ONE + "design: {zip: [[a, bb]]}",
            2,
            "there is no factor `bb`",
            "use `a`, or add it",
        ),
        (
            "factors: {tone: {settings.max_turns: [1, 2]}}\ndesign:\n  exclude:\n  - {tone: 1}\n  - {tome: 2}",
            5,
            "there is no factor `tome`",
            "did you mean `tone`?",
        ),
        (
            ONE + "design: {exclude: [{a: 3}]}",
            2,
            "factor `a` has no level `3`",
            "use one of `1`, `2`",
        ),
        (
            ONE + "design: {exclude: [{}]}",
            2,
            "an empty map excludes every condition",
            "name a level",
        ),
        (
            ONE + "design: {exclude: [{a: 1}, {a: 2}]}",
            2,
            "no condition is left",
            "exclude less",
        ),
        (
            ONE + "design: {list: []}",
            2,
            "`design.list` is empty",
            "list at least one",
        ),
        (
            ONE + "design: {list: [{a: 1}, {a: 1}]}",
            2,
            "this entry of `design.list` stands there twice",
            "remove",
        ),
        (
            ONE + "design: {zip: [[a]]}",
            2,
            "a zip of fewer than two factors",
            "name two",
        ),
        (
            ONE + "design: {zipp: [[a]]}",
            2,
            "`design` has no key `zipp`",
            "did you mean `zip`?",
        ),
        (
            TWO.replace("[1, 2]}}", "[1, 2, 3]}}") + "design: {zip: [[a, b]]}",
            2,
            "zipped factors need the same number of levels: `a` has 2, `b` has 3",
            "make them equal",
        ),
        (
            TWO + "design: {zip: [[a, b], [b, a]]}",
            2,
            "the factor `b` is zipped twice",
            "put all factors",
        ),
        (
            TWO + "design: {include: [{a: 1}]}",
            2,
            "this condition has no level of `b`",
            "add `b: ...`; use one of `1`, `2`",
        ),
        (
            TWO + "design: {zip: [[a, b]], list: [{a: 1, b: 2}]}",
            2,
            "`design.zip` has no effect beside `design.list`",
            "keep one",
        ),
    ],
)
def test_a_mistake_in_factors_or_design(more: str, line: int, what: str, fix: str) -> None:
    check_mistake(more, line=line, what=what, fix=fix)
