"""The scripted batch route: it keeps what a provider would keep, and fails where it is told to."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from trialrun.core.batches import Look, PackFile, Result
from trialrun.core.calls import Call, Message, Request
from trialrun.core.errors import (
    CallTimedOut,
    QuotaExhausted,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
)
from trialrun.testing.clock import ManualClock
from trialrun.testing.scripted import Answer, Scripted
from trialrun.testing.scripted_batches import (
    Course,
    NeverRan,
    ScriptedRoute,
    doubled,
    foreign,
    garbled,
    missing,
    reverse,
)


def call(number: int) -> Call:
    request = Request(model="scripted/x", messages=(Message("user", f"question {number}"),), max_tokens=100)
    return Call(
        trial=f"t-r{number}",
        condition="t",
        address="1",
        party="p",
        purpose="",
        turn=1,
        request=request,
        key=b"k" * 32,
    )


def echo(this: Call) -> Answer:
    return f"answer to {this.request.messages[-1].text}"


def pack_of(route: ScriptedRoute, folder: Path, *, calls: int = 4) -> PackFile:
    made = [call(n) for n in range(calls)]
    lines = [
        route.line(f"t-r{n}-c1-a2-sabcde", route.provider.prepare(this), this) for n, this in enumerate(made)
    ]
    content = b"".join(lines)
    path = folder / "pack.jsonl"
    path.write_bytes(content)
    return PackFile(id="pack-1", model="scripted/x", path=path, requests=calls, size_bytes=len(content))


async def results_of(route: ScriptedRoute, batch: str, look: Look) -> list[Result]:
    found: list[Result] = []
    for result in look.results:
        content = b"".join([chunk async for chunk in route.fetch(batch, result)])
        found += [route.read(line) for line in content.splitlines()]
    return found


def texts(route: ScriptedRoute, results: Sequence[Result]) -> list[str]:
    return [route.provider.parse(r.raw, call(0).request).text for r in results if r.raw is not None]


async def test_a_batch_is_uploaded_created_watched_and_its_replies_are_those_of_the_provider(tmp_path: Path):
    route = ScriptedRoute(Scripted(echo), courses=Course(looks=("queued", "running")))
    pack = pack_of(route, tmp_path)
    handle = await route.upload(pack)
    batch = await route.create(pack, handle)
    looks = [await route.look(batch) for _ in range(4)]
    assert [look.phase for look in looks] == ["queued", "running", "ended", "ended"]
    results = await results_of(route, batch, looks[-1])
    assert [result.id for result in results] == [f"t-r{n}-c1-a2-sabcde" for n in range(4)]
    assert texts(route, results) == [f"answer to question {n}" for n in range(4)]
    assert all(route.provider.meter(result.raw) for result in results if result.raw)
    assert [sent.attempt for sent in route.provider.sent] == [2] * 4
    assert set(route.billed.values()) == {1}


async def test_a_lost_reply_of_create_leaves_a_batch_that_the_input_finds(tmp_path: Path):
    route = ScriptedRoute(Scripted(echo))
    pack = pack_of(route, tmp_path)
    handle = await route.upload(pack)
    route.fail("create", Unavailable("refused"))
    route.fail("create", CallTimedOut("lost"), after=True)
    with pytest.raises(Unavailable):
        await route.create(pack, handle)
    assert await route.find(pack, handle) == []
    with pytest.raises(CallTimedOut):
        await route.create(pack, handle)
    assert await route.find(pack, handle) == [route.batches[0].id]
    assert await route.find(pack, "file-9") == []
    assert len(route.billed) == 4


async def test_every_line_has_an_end_of_its_own(tmp_path: Path):
    answers: list[Answer] = ["fine", Throttled("busy"), NeverRan("batch_expired"), QuotaExhausted("empty")]
    route = ScriptedRoute(Scripted(answers), anchor="none")
    pack = pack_of(route, tmp_path)
    assert await route.upload(pack) == ""
    batch = await route.create(pack, "")
    look = await route.look(batch)
    assert (look.total, look.done, look.failed) == (4, 1, 2)
    assert len(look.results) == 2
    ok, busy, never, quota = await results_of(route, batch, look)
    assert ok.raw
    assert isinstance(busy.error, Throttled)
    assert never.raw is None
    assert never.error is None
    assert never.reason == "batch_expired"
    assert isinstance(quota.error, QuotaExhausted)
    assert sum(route.billed.values()) == 1
    assert await route.find(pack, "") == [batch]


async def test_a_batch_that_expires_or_is_cancelled_bills_what_ran(tmp_path: Path):
    clock = ManualClock()
    courses = [Course(runs=1), Course(takes_s=60.0, cancel_keeps=2), Course(takes_s=60.0, cancel_keeps=None)]
    route = ScriptedRoute(Scripted(echo), courses=courses, anchor="name", clock=clock)
    pack = pack_of(route, tmp_path)
    kept: list[int] = []
    for _ in courses:
        batch = await route.create(pack, await route.upload(pack))
        look = await route.look(batch)
        if look.phase == "running":
            assert look.results == ()
            await route.cancel(batch)
            look = await route.look(batch)
        results = await results_of(route, batch, look)
        assert len(results) == 4
        kept.append(len(texts(route, results)))
    assert kept == [1, 2, 4]
    assert sum(route.billed.values()) == 7
    assert [listed.batch for listed in await route.listed(most=2)] == ["batch-3", "batch-2"]


async def test_results_come_changed_as_told(tmp_path: Path):
    changes = [reverse, missing(1), doubled(0), foreign("x-c1"), garbled(2)]
    route = ScriptedRoute(Scripted(echo), courses=[Course(change=change) for change in changes])
    pack = pack_of(route, tmp_path)
    handle = await route.upload(pack)
    seen: list[list[str]] = []
    for _ in changes:
        batch = await route.create(pack, handle)
        seen.append([r.id[:4] for r in await results_of(route, batch, await route.look(batch))])
    a, b, c, d = "t-r0", "t-r1", "t-r2", "t-r3"
    assert seen == [[d, c, b, a], [a, c, d], [a, a, b, c, d], [a, b, c, d, "x-c1"], [a, b, "", d]]


async def test_a_download_breaks_off_and_results_can_be_gone(tmp_path: Path):
    route = ScriptedRoute(Scripted(echo))
    pack = pack_of(route, tmp_path)
    batch = await route.create(pack, await route.upload(pack))
    look = await route.look(batch)
    route.fail("fetch", Unavailable("broke off"), after=True)
    download = route.fetch(batch, look.results[0])
    assert await anext(download)
    with pytest.raises(Unavailable):
        await anext(download)
    assert len(await results_of(route, batch, look)) == 4
    route.delete(batch)
    assert (await route.look(batch)).phase == "gone"
    with pytest.raises(RequestRefused):
        await results_of(route, batch, look)


async def test_a_batch_that_is_refused_as_a_whole_bills_nothing(tmp_path: Path):
    course = Course(
        end="failed", problems=("line 3: no such model",), looks=("queued", Look(phase="unknown", word="?"))
    )
    route = ScriptedRoute(Scripted(echo), courses=course)
    pack = pack_of(route, tmp_path)
    batch = await route.create(pack, await route.upload(pack))
    looks = [await route.look(batch) for _ in range(3)]
    assert [look.phase for look in looks] == ["queued", "unknown", "failed"]
    assert looks[-1].problems == ("line 3: no such model",)
    assert not looks[-1].results
    assert not route.billed


async def test_what_the_route_does_not_know_is_refused(tmp_path: Path):
    route = ScriptedRoute(Scripted(echo))
    pack = pack_of(route, tmp_path)
    for refused in (route.create(pack, "file-9"), route.look("batch-9"), route.cancel("batch-9")):
        with pytest.raises(TrialrunError):
            await refused
    assert route.used == {"create": 1, "look": 1, "cancel": 1}
