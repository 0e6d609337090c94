"""What a model wrote is shown and never obeyed: no cursor, no colour, no markup, no window title."""

import io
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.cli.conftest import Trialrun
from trialrun.cli.blocks import Column, Line, Pairs, Table, Verbatim, plain
from trialrun.cli.colour import drawn
from trialrun.cli.defuse import defused, one_line, width_of

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x1b[31m[bold red]x[/] \u202eevil \x9b1m \r over :smile: [link=file:///etc]"


def is_tame(text: str) -> bool:
    controls = {chr(code) for code in (*range(32), *range(0x7F, 0xA0))} - {"\n", "\t"}
    return controls.isdisjoint(text) and {"\u202e", "\u2066", "\u2028", "\u061c"}.isdisjoint(text)


@given(st.text())
def test_a_defused_text_has_nothing_that_a_terminal_obeys(text: str):
    assert is_tame(defused(text))
    assert "\n" not in one_line(text)
    assert width_of(defused(text)) >= 0
    defused(text).encode()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_an_ordinary_text_stays_as_it_is(text: str):
    assert defused(text) == text


def test_blocks_are_tame_on_a_terminal_and_in_a_pipe():
    blocks = [
        Line(HOSTILE, "error"),
        Line(HOSTILE, "loud"),
        Verbatim(HOSTILE),
        Pairs([(HOSTILE, HOSTILE)]),
        Pairs([(HOSTILE, HOSTILE)], are_commands=True),
        Table([Column("a")], [[HOSTILE]]),
        Table([Column("b" + HOSTILE)], [[HOSTILE]]),
    ]
    for block in blocks:
        assert is_tame("\n".join(plain(block)))
        for width in (20, 400):
            stream = io.StringIO()
            Console(file=stream, width=width, color_system=None, markup=False, emoji=False).print(
                drawn(block, width)
            )
            shown = stream.getvalue()
            assert is_tame(shown)
            assert "\x1b" not in shown
            if width == 400:
                assert "[bold red]" in shown, "markup is text"
                assert ":smile:" in shown


def test_a_model_that_writes_control_sequences_reaches_no_terminal(
    trialrun: Trialrun, with_procedure: Callable[..., str]
):
    study = with_procedure(
        f"hostile = {HOSTILE!r}\n"
        'await lab.ask("a", "Hello?")\n'
        'lab.measure("said", hostile)\n'
        'if trial.id != "walk" and trial.replicate == 1:\n    raise ValueError(hostile)\n'
        'return {"said": hostile}',
        more="measures: [said]\n",
    )
    for arguments in (
        ["rehearse", study],
        ["status", study],
        ["plan", study, "--prompts"],
        ["status", study, "--json"],
    ):
        said = trialrun(*arguments)
        assert is_tame(said.out), arguments
        assert is_tame(said.err), arguments
    assert "\\x1b" in trialrun("status", study).out
