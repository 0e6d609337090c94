"""Real processes and real signals: the first stops in good order, the second at once, and another terminal may too."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Trialrun, process
from trialrun.app.exits import Exit
from trialrun.core.errors import StoreError
from trialrun.store.archive import Archive

SLOW = ("--speed", "0.2")


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.02)


def is_calling(folder: Path) -> Callable[[], bool]:
    """Whether a run has calls in flight, by what it publishes."""

    def look() -> bool:
        try:
            with Archive(folder) as archive:
                live = archive.live()
        except StoreError:
            return False  # it has not begun yet
        return bool(live and live["in_flight"])

    return look


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_one_signal_lets_calls_settle_and_the_next_run_continues(
    trialrun: Trialrun, small: str, tmp_path: Path, number: signal.Signals
):
    folder = tmp_path / "results/small.rehearsal"
    with process("rehearse", small, "--speed", "2", cwd=tmp_path) as started:
        wait_for(is_calling(folder), "calls in flight")
        started.send_signal(number)
        out, err = started.communicate(timeout=60)
    assert started.returncode == Exit.INTERRUPTED
    assert "starting nothing new" in err
    assert "in flight will settle" in err
    assert "Traceback" not in err
    assert "go on where it stopped" in out
    data = trialrun("status", small, "--json").json
    assert data["money"]["doubts"] == 0
    assert data["exit"] == Exit.INTERRUPTED
    assert trialrun("rehearse", small).exit == 0


def test_a_second_ctrl_c_stops_at_once_and_keeps_the_calls_in_doubt(
    trialrun: Trialrun, small: str, tmp_path: Path
):
    folder = tmp_path / "results/small.rehearsal"
    with process("rehearse", small, *SLOW, cwd=tmp_path) as started:
        wait_for(is_calling(folder), "calls in flight")
        started.send_signal(signal.SIGINT)
        time.sleep(0.5)
        began = time.monotonic()
        started.send_signal(signal.SIGINT)
        _, err = started.communicate(timeout=30)
        assert time.monotonic() - began < 10
    assert started.returncode == Exit.INTERRUPTED
    assert "stopping at once" in err
    assert "Traceback" not in err
    data = trialrun("doctor", small, "--json").json
    assert data["in_doubt"]
    call = data["in_doubt"][0]["call"]
    confirmed = trialrun("doctor", small, "--confirm", call, "0.0001", "--json").json
    assert confirmed["left"] == len(data["in_doubt"]) - 1
    assert trialrun("doctor", small, "--confirm", call, "0.0001").exit == Exit.USAGE
    assert trialrun("rehearse", small).exit == 0


def test_another_terminal_watches_and_stops_a_run(trialrun: Trialrun, small: str, tmp_path: Path):
    folder = tmp_path / "results/small.rehearsal"
    with process("rehearse", small, "--speed", "1", cwd=tmp_path) as started:
        wait_for(is_calling(folder), "calls in flight")
        status = trialrun("status", small)
        assert status.exit == Exit.INTERRUPTED
        assert f"running, process {started.pid}" in status.out
        assert "trialrun watch small.yaml" in status.out
        with process("watch", small, cwd=tmp_path) as watching:
            assert watching.stderr is not None
            first = watching.stderr.readline()  # now it follows the run, however long it took to start
            said = trialrun("stop", small)
            assert said.exit == 0
            assert "stopping" in said.out
            _, err = started.communicate(timeout=60)
            watched, progress = watching.communicate(timeout=60)
    assert started.returncode == Exit.INTERRUPTED
    assert "stopped from another process" in err
    assert watching.returncode == Exit.INTERRUPTED
    assert "of 6 trials done" in first + progress
    assert "small: not finished" in watched


def test_stop_and_watch_say_when_nobody_runs_the_study(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, "-q")
    said = trialrun("stop", small)
    assert said.exit == Exit.USAGE
    assert "no process runs this study" in said.err
    said = trialrun("watch", small)
    assert said.exit == 0
    assert "no process runs this study now" in said.err


def test_json_is_one_document_even_when_interrupted(small: str, tmp_path: Path):
    folder = tmp_path / "results/small.rehearsal"
    with process("rehearse", small, "--speed", "2", "--json", cwd=tmp_path) as started:
        wait_for(is_calling(folder), "calls in flight")
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=60)
    assert err == ""
    assert json.loads(out)["exit"] == started.returncode == Exit.INTERRUPTED


def on_a_terminal(*arguments: str, cwd: Path) -> tuple[int, str]:
    """What a command shows on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "trialrun", *arguments],
        cwd=cwd,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "COLUMNS": "100", "LINES": "30", "TERM": "xterm-256color"},
    ) as started:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(ours)
    return started.returncode, shown.decode()


def test_on_a_terminal_progress_is_drawn_in_place_and_the_table_in_colour(small: str, tmp_path: Path):
    code, shown = on_a_terminal("rehearse", small, "--speed", "40", cwd=tmp_path)
    assert code == 0
    assert "▒" in shown, "trials that are under way"
    assert "\x1b[2K" in shown or "\x1b[1A" in shown, "the picture is drawn over"
    assert "6 of 6 trials done" in shown
    assert "\x1b[?25h" in shown, "the cursor is back"
    code, quiet = on_a_terminal("rehearse", small, "--quiet", cwd=tmp_path)
    assert code == 0
    assert "░" not in quiet
