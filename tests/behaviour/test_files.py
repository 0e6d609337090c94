"""Files beside the journal: whole at every moment, left alone when nothing changed, written again when lost."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.behaviour.support import make_plan, run
from trialrun.app.files import put, whole
from trialrun.app.studies import GIVEN, RESOLVED, load

TALK: dict[str, Any] = {
    "procedure": "conversation",
    "parties": {
        "a": {"model": "x/m", "prompt": "You are {{ mood }}.", "values": {"mood": "calm"}, "max_tokens": 50},
        "b": {"model": "x/n", "prompt": "You listen.", "max_tokens": 50},
    },
}


def test_whoever_reads_a_file_meets_one_content_or_the_other(tmp_path: Path) -> None:
    file, contents, is_over = tmp_path / "file", {"a" * 300_000, "b" * 200_000}, Event()
    put(file, "a" * 300_000)

    def read() -> set[str]:
        seen: set[str] = set()
        while not is_over.is_set():
            seen.add(file.read_text(encoding="utf-8"))
        return seen

    with ThreadPoolExecutor() as pool:
        reading = pool.submit(read)
        for _ in range(200):
            for content in contents:
                put(file, content)
        is_over.set()
    assert reading.result() <= contents
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_the_same_content_leaves_a_file_alone(tmp_path: Path) -> None:
    before = put(tmp_path / "file", "text").stat()
    after = put(tmp_path / "file", b"text").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_file_that_is_given_up_leaves_what_was_there(tmp_path: Path) -> None:
    put(tmp_path / "file", "old")

    def lines() -> Iterator[bytes]:
        yield b"half"
        raise OSError

    with pytest.raises(OSError), whole(tmp_path / "file") as stream:  # noqa: PT011  # any will do
        stream.writelines(lines())
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("name", [GIVEN, RESOLVED])
async def test_a_plan_whose_files_were_not_written_gets_them_from_the_next_run(
    tmp_path: Path, name: str
) -> None:
    plan = make_plan(tmp_path, **TALK)
    await run(plan)
    before = (plan.folder / name).read_text(encoding="utf-8")
    (plan.folder / name).unlink()
    await run(plan)
    assert (plan.folder / name).read_text(encoding="utf-8") == before
    (plan.folder / RESOLVED).write_text("study: the one before", encoding="utf-8")
    await run(plan)
    assert load(plan.folder).study.digest == plan.study.digest


async def test_going_on_from_the_folder_keeps_the_plan_as_it_was_given(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, **TALK)
    await run(plan)
    before = (plan.folder / GIVEN).read_text(encoding="utf-8")
    await run(load(plan.folder))
    assert (plan.folder / GIVEN).read_text(encoding="utf-8") == before
