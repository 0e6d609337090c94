"""YAML as the study file understands it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.core.data import DEEPEST, plain_data
from trialrun.core.reading.source import plain_value, read_source
from trialrun.core.reading.writing import write_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("012", 12),
        ("0x1F", "0x1F"),
        ("1_000", "1_000"),
        ("1e3", 1000.0),
        ("-2", -2),
        (".5", 0.5),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'12'", "12"),
        ("!!str 12", "12"),
        ("[1, no]", [1, "no"]),
        ("{1: a, yes: b}", {"1": "a", "yes": "b"}),
        ("openai/*", "openai/*"),
    ],
)
def test_plain_values_follow_yaml_1_2(text: str, value: object) -> None:
    found = plain_value(text)
    assert found == value
    assert type(found) is type(value)


def test_what_is_no_yaml_stands_for_itself() -> None:
    assert plain_value("{{ tone }") == "{{ tone }"
    assert plain_value("@all") == "@all"


def test_every_key_and_value_has_its_line() -> None:
    source = read_source("a: 1\nb:\n  - x\n  - y: |\n      long\n    z:\n      5\n", file="s.yaml")
    assert source.data == {"a": 1, "b": ["x", {"y": "long\n", "z": 5}]}
    assert source.line_of(("a",)) == 1
    assert source.line_of(("b",)) == 2
    assert source.line_of(("b", 0)) == 3
    assert source.line_of(("b", 1, "y")) == 4
    assert source.line_of(("b", 1, "z"), key=True) == 6
    assert source.line_of(("b", 1, "z")) == 7
    assert source.line_of(("b", 1, "unknown")) == 4, "the nearest thing around it"


@pytest.mark.parametrize(
    ("text", "line", "what", "fix"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "the key `a` stands here twice", "the first is in line 1; keep one"),
        ("a:\n  x: 1\n  x: 2\n", 3, "the key `x` stands here twice", "the first is in line 2; keep one"),
        ("a: 1\nb: c: d\n", 2, "this is not YAML", "put a text that contains `: ` in quotes"),
        ("a: 1\n\tb: 2\n", 2, "this is not YAML", "indent with spaces, not tabs"),
        ("a: 1\nb: [1, 2\nc: 3\n", 2, "this is not YAML", "close what was opened in line 2"),
        ("a: 1\nb\nc: 2\n", 2, "this is not YAML", "put a `:` after the key"),
        ("a:\n   b: 1\n  c: 2\n", 3, "this is not YAML", "line it up with the block that begins in line 1"),
        ("a: 1\nb: 'x\n", 2, "this is not YAML", "close what was opened in line 2"),
        ("a: *x\n", 1, "nothing is anchored as `&x`", "put `&x` before a value above this line"),
        ("a: &y 1\nb: *x\n", 2, "nothing is anchored as `&x`", "anchors so far: `&y`"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here", "one file holds one study; drop the `---`"),
        (
            "a: !!python/object:os.system {}\n",
            1,
            "the tag `tag:yaml.org,2002:python/object:os.system`",
            "remove it",
        ),
        ("a: !secret x\n", 1, "the tag `!secret` means nothing here", "remove it"),
        (
            "a: 99999999999999999999999\n",
            1,
            "is too large a whole number",
            "put it in quotes if it is a text",
        ),
        ("a: 1e999\n", 1, "`1e999` is too large a number", "use a smaller one"),
        ("a: 1\n? [x]\n: 2\n", 2, "a key must be a text", "use a name as key"),
        ("a: &b [1, *b]\n", 1, "this anchor contains itself", "remove the `*`"),
        ("a: 1\n<<: 5\n", 2, "`<<` takes a map", "give it `*`"),
        ("a: \x00\n", None, "the file is not text", "save it as UTF-8"),
        ("a: 1\nb: \x07\n", 2, "the text is not YAML", "remove the character"),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_line(
    text: str, line: int | None, what: str, fix: str
) -> None:
    source = read_source(text, file="s.yaml")
    assert len(source.mistakes) == 1
    mistake = source.mistakes[0]
    assert what in mistake.what
    assert mistake.fix.startswith(fix)
    assert mistake.line == line
    if line:
        assert mistake.source == text.splitlines()[line - 1]


def test_anchors_and_merges_keep_the_line_where_they_are_used() -> None:
    source = read_source("a: &base\n  x: 1\n  y: 2\nb:\n  <<: *base\n  y: 3\nc: *base\n", file="s.yaml")
    assert source.data == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": 3}, "c": {"x": 1, "y": 2}}
    assert source.line_of(("b", "y")) == 6
    assert source.line_of(("c",)) == 7


def test_anchors_cannot_describe_more_data_than_there_is_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    source = read_source("\n".join(lines), file="s.yaml")
    assert source.data is None
    assert "anchors stand for more than" in source.mistakes[0].what


def test_nesting_is_bounded_before_anything_is_built() -> None:
    source = read_source("a: " + "[" * 20_000 + "]" * 20_000, file="s.yaml")
    assert source.mistakes[0].what == f"values are nested deeper than {DEEPEST}"


def test_a_program_cannot_give_data_that_contains_itself() -> None:
    inner: list[object] = []
    inner.append(inner)
    _, wrong = plain_data({"a": inner})
    assert wrong == [(f"values are nested deeper than {DEEPEST}", "make it flatter")]


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t"), max_size=20)
TRICKY = st.sampled_from(
    ["no", "1e3", "08", "0x1", "1:30", "~", "", "<<", "- x", "a: b", "#", "12", "!x", "*a", "=", "|"]
)


@given(
    st.dictionaries(
        TEXTS | TRICKY,
        st.recursive(
            SCALARS | TEXTS | TRICKY,
            lambda kids: st.lists(kids, max_size=3) | st.dictionaries(TEXTS | TRICKY, kids, max_size=3),
        ),
        max_size=4,
    )
)
def test_what_is_written_reads_back(document: dict[str, object]) -> None:
    source = read_source(write_yaml(document), file="s.yaml")
    assert source.mistakes == ()
    assert source.data == document


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_but_never_breaks(text: str) -> None:
    source = read_source(text, file="s.yaml")
    assert source.mistakes or source.data is None or isinstance(source.data, str | int | float | list | dict)
