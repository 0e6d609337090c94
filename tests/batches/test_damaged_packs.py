"""Files of packs that are changed on disk while their batch is out: nothing is asked twice for it, and it is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.batches.support import batch_plan, jumping, route_of, run_batches
from trialrun.app.exits import Exit
from trialrun.app.running import Options
from trialrun.core.errors import RequestRefused, StoreError
from trialrun.testing.scripted_batches import Course

Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, Damage] = {
    "the last row is lost": lambda lines: lines[:-1],
    "all rows are lost": lambda _: [],
    "the last row is cut": lambda lines: [*lines[:-1], lines[-1][:20]],
    "a row is no row": lambda lines: [b"{}\n", *lines[1:]],
    "a row is no text": lambda lines: [b"\xff\x00" + lines[0][2:], *lines[1:]],
    "a row has another id": lambda lines: [lines[0].replace(b'["', b'["x', 1), *lines[1:]],
    "a row is there twice": lambda lines: [lines[0], *lines],
}


@pytest.mark.parametrize(
    ("file", "name"),
    [
        *(("rows.jsonl", name) for name in DAMAGES),
        ("forms.jsonl", "all rows are lost"),
        ("forms.jsonl", "a row is no row"),
    ],
)
async def test_a_pack_whose_files_were_changed_is_named_and_none_of_its_calls_leaves_again(
    tmp_path: Path, file: str, name: str
) -> None:
    clock = jumping()
    route = route_of(clock, *[Course(looks=("running",))] * 2)
    plan = batch_plan(tmp_path)
    ran = await run_batches(plan, route, clock, Options(detach=True))
    assert ran.exit is Exit.PARKED
    (path,) = (plan.folder / "batches").glob(f"*/{file}")
    intact = path.read_bytes()
    path.write_bytes(b"".join(DAMAGES[name](intact.splitlines(keepends=True))))
    assert path.read_bytes() != intact

    try:
        ran = await run_batches(plan, route, clock)
        assert isinstance(ran.stopped_by, StoreError), ran
        told = ran.stopped_by
    except StoreError as error:
        told = error
    assert path.parent.name in told.what
    assert file in told.what
    assert "batches" in told.fix
    assert len(route.batches) == 1

    path.write_bytes(intact)
    ran = await run_batches(plan, route, clock)
    assert ran.exit is Exit.DONE
    assert max(route.billed.values()) == 1, "no request ran twice"
    assert sum(route.billed.values()) == 8


async def test_requests_that_were_changed_before_they_left_do_not_leave(tmp_path: Path) -> None:
    clock = jumping()
    route = route_of(clock)
    route.fail("upload", RequestRefused("not today"))
    plan = batch_plan(tmp_path)
    await run_batches(plan, route, clock)
    (path,) = (plan.folder / "batches").glob("*/requests.jsonl")
    intact = path.read_bytes()
    path.write_bytes(intact.replace(b"Question", b"Guestion"))
    ran = await run_batches(plan, route, clock)
    assert isinstance(ran.stopped_by, StoreError)
    assert "requests.jsonl" in ran.stopped_by.what
    assert not route.uploads
    path.write_bytes(intact)
    assert (await run_batches(plan, route, clock)).exit is Exit.DONE
    assert max(route.billed.values()) == 1
