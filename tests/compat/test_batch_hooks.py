"""Hooks: who is told that a batch has ended, by whom, and how often."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Trialrun, process, trialrun
from tests.compat.test_batch_files import create, far_end, side_by_side, tracked
from trialrun.app.exits import Exit

__all__ = ["create", "trialrun"]


def test_a_webhook_and_a_command_are_told_of_a_batch_without_its_keys(
    create: Callable[..., str], trialrun: Trialrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[Any] = []

    class Hook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = HTTPServer(("127.0.0.1", 0), Hook)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        with far_end(monkeypatch) as far:
            assert trialrun("batch", "submit", create()).exit == Exit.DONE
            command = "env > environment.txt; cat > told.json"
            url = f"http://127.0.0.1:{server.server_port}/ended"
            told = ("--on-complete", command, "--webhook", url)
            assert trialrun("batch", "monitor", "--interval", "0.1", *told).exit == Exit.DONE
            key = far.settings("openai")["OPENAI_API_KEY"]
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    (batch,) = tracked(tmp_path)
    assert posted == [json.loads((tmp_path / "told.json").read_text())]
    assert (posted[0]["batch_id"], posted[0]["status"], posted[0]["answered"]) == (
        batch["batch_id"],
        "completed",
        4,
    )
    environment = (tmp_path / "environment.txt").read_text()
    assert f"BATCH_ID={batch['batch_id']}" in environment
    assert f"={key}\n" not in environment


def test_of_several_processes_that_watch_a_batch_one_tells_that_it_has_ended(
    create: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trialrun: Trialrun
) -> None:
    with far_end(monkeypatch, running_s=1.5):
        file = create()
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        command = 'sleep 0.3; echo "$BATCH_ID" >> told.txt'
        watching = ("batch", "monitor", "--interval", "0.1", "--batch-id", file, "--on-complete", command)
        ended = side_by_side(tmp_path, *[watching] * 3)
        assert {code for code, _ in ended} == {Exit.DONE}, ended
        assert len((tmp_path / "told.txt").read_text().splitlines()) == 1
        assert trialrun(*watching).exit == Exit.DONE
        assert len((tmp_path / "told.txt").read_text().splitlines()) == 1, "nor is it told again later"
        assert trialrun(*watching[:-1], "echo other >> told.txt").exit == Exit.DONE
        assert (tmp_path / "told.txt").read_text().splitlines()[1:] == ["other"], "another hook is told too"


def test_a_hook_that_failed_or_was_killed_is_run_again_by_the_next_who_watches(
    create: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trialrun: Trialrun
) -> None:
    with far_end(monkeypatch):
        file = create()
        assert trialrun("batch", "submit", file).exit == Exit.DONE
        failing = "echo x >> tried.txt; test -e mended"
        watching = ("batch", "monitor", "--interval", "0.1", "--batch-id", file, "--on-complete")
        assert trialrun(*watching, failing).exit == Exit.SOME_FAILED
        (tmp_path / "mended").touch()
        assert trialrun(*watching, failing).exit == Exit.DONE
        assert trialrun(*watching, failing).exit == Exit.DONE
        assert (tmp_path / "tried.txt").read_text().count("x") == 2
        killed = "echo y >> tried.txt; test -e second || kill -9 $PPID"
        with process(*watching, killed, cwd=tmp_path) as first:
            assert first.wait(30) == -9
        (tmp_path / "second").touch()
        assert trialrun(*watching, killed).exit == Exit.DONE
        assert (tmp_path / "tried.txt").read_text().count("y") == 2


@pytest.mark.parametrize("hook", [("--on-complete", "exit 7"), ("--webhook", "http://127.0.0.1:9/nobody")])
def test_a_hook_that_fails_is_told_and_loses_no_answer(
    create: Callable[..., str],
    trialrun: Trialrun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    hook: tuple[str, str],
) -> None:
    with far_end(monkeypatch):
        assert trialrun("batch", "submit", create()).exit == Exit.DONE
        said = trialrun("batch", "monitor", "--interval", "0.1", *hook)
        assert said.exit == Exit.SOME_FAILED
        assert "ended with code 7" in said.err or "was not reached" in said.err
        assert len((tmp_path / "results/some_results.jsonl").read_text().splitlines()) == 4
