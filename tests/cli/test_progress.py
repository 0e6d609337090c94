"""Progress from moments made by hand: plain lines, and the picture on a terminal."""

import io
from dataclasses import replace
from decimal import Decimal

from rich.console import Console

from trialrun.app.live import Live, left_s_of
from trialrun.cli.dashboard import frame
from trialrun.cli.progress import Lines
from trialrun.cli.screen import Screen
from trialrun.cli.wording import clock, line_of
from trialrun.engine.parts import Progress

MOMENT = Live(
    study="greeting",
    lane="live",
    folder="results/greeting",
    pid=1,
    at=0.0,
    elapsed_s=75.0,
    planned=48,
    done=17,
    failed=1,
    parked=0,
    open=12,
    replicates=12,
    conditions=(("tone=warm", 12), ("tone=cool", 5), ("tone=odd", 0), ("tone=flat", 0)),
    open_in=(0, 5, 2, 0),
    more_conditions=0,
    spent_usd=Decimal("0.12"),
    held_usd=Decimal("0.03"),
    budget_usd=Decimal(20),
    unknown_costs=0,
    calls=312,
    retries=2,
    in_flight=12,
    trials_per_minute=14.2,
    left_s=127.0,
    waits=(),
    stop="",
    errors=(),
)


def picture(live: Live, *, width: int = 100, height: int = 30) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height, color_system=None, markup=False, emoji=False)
    console.print(frame(live, console))
    return stream.getvalue()


def test_a_line_says_trials_calls_money_and_what_is_left():
    assert line_of(MOMENT) == (
        "17 of 48 trials done, 1 failed; 312 calls answered, 12 in flight, 2 repeated; "
        "0.12 USD spent, 0.03 held, 19.85 left of 20.00; about 2 min left"
    )


def test_a_line_says_loudly_when_it_is_a_rehearsal_why_calls_wait_and_that_it_stops():
    said = line_of(replace(MOMENT, lane="rehearsal", waits=("openai/x: 3 wait",), stop="interrupted"))
    assert said.startswith("rehearsal, ")
    assert "openai/x: 3 wait" in said
    assert said.endswith("stopping: interrupted; 12 calls in flight")


def test_lines_come_at_once_every_few_seconds_and_at_the_end():
    now = 0.0
    err = io.StringIO()
    lines = Lines(Screen(err=err), monotonic=lambda: now)
    for second in range(12):
        now = second / 1.0
        lines.update(replace(MOMENT, elapsed_s=now, done=second))
    lines.update(replace(MOMENT, elapsed_s=now, done=48), is_last=True)
    stamps = [line.split("]")[0] + "]" for line in err.getvalue().splitlines()]
    assert stamps == ["[00:00]", "[00:05]", "[00:10]", "[00:11]"]


def test_the_last_line_is_not_said_twice():
    err = io.StringIO()
    lines = Lines(Screen(err=err), monotonic=lambda: 0.0)
    lines.update(MOMENT)
    lines.update(MOMENT, is_last=True)
    assert len(err.getvalue().splitlines()) == 1


def test_the_picture_has_a_bar_for_each_condition_money_and_pace():
    shown = picture(MOMENT)
    warm, cool = [line for line in shown.splitlines() if line.startswith(("tone=warm", "tone=cool"))]
    assert warm.split()[1:] == ["█" * 20, "12/12"]
    assert cool.split()[1:] == ["█" * 8 + "▒" * 9 + "░" * 3, "5/12"], "done, under way, to come"
    assert "0.12 USD spent, 0.03 held, 19.85 left of 20.00" in shown
    assert "14.2 trials/min" in shown
    assert "REHEARSAL" not in shown
    assert "REHEARSAL" in picture(replace(MOMENT, lane="rehearsal"))


def test_a_small_window_shows_the_conditions_that_are_not_done_and_says_how_many_there_are():
    shown = picture(MOMENT, width=40, height=10)
    assert "tone=cool" in shown
    assert "tone=warm" not in shown
    assert "2 conditions more" in shown
    assert max(map(len, shown.splitlines())) <= 40


def test_in_a_narrow_window_the_numbers_stay_and_the_bars_go():
    titles = [f"tone=warm, model=openai/gpt-5-mini-{number}" for number in range(3)]
    moment = replace(MOMENT, conditions=tuple((title, 7) for title in titles), open_in=(0, 0, 0))
    for width in (20, 30, 46, 60):
        shown = picture(moment, width=width)
        rows = [line for line in shown.splitlines() if line.startswith("tone=")]
        assert len(rows) == 3
        assert all(row.rstrip().endswith("7/12") for row in rows), f"{width} columns: {rows[0]}"
        assert max(map(len, shown.splitlines())) <= width
        assert ("█" in shown) == (width >= 46)


def test_the_time_that_is_left_is_told_by_calls():
    """Forty trials of ten calls, all open: when the first one ends, the others are nearly there."""
    moment = Progress(ended_now=1, calls_of_ended=10)
    assert left_s_of(moment, 60.0, 39, calls=300) == 60.0 * (390 - 290) / 300
    assert left_s_of(moment, 60.0, 39, calls=420) == 0.0, "the others make more calls than the first"
    assert left_s_of(Progress(ended_now=10), 60.0, 30, calls=0) == 180.0, "without calls, trials are counted"


def test_a_clock_counts_minutes_and_hours():
    assert (clock(0), clock(271.9), clock(3871)) == ("00:00", "04:31", "1:04:31")
