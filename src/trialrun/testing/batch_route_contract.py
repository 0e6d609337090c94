"""The contract suite of `core.batches.BatchRoute`: subclass it, give a `far` end, and every rule of the port is tested.

R1. What a batch brings back is what the live lane brings for the same body, in whatever order it comes.
R2. One step is one request to the provider; a failure is one of ours, and says whether a batch may exist.
R3. A batch whose creation is in doubt is among what `find` gives; one that was refused is not.
R4. Every phase, also of a batch that goes another way than it should, is said in one vocabulary.
R5. `read` never raises; each line is a reply, an error, a request that never ran, or nobody's.
R6. A download is whole or Unavailable; what is deleted is refused as gone.
R7. No key is in a repr, a line, a result or an error.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, get_args

import pytest

from trialrun.core.batches import BatchRoute, Look, PackFile, Phase, Result
from trialrun.core.calls import Call
from trialrun.core.errors import (
    AuthRefused,
    CallError,
    QuotaExhausted,
    RequestRefused,
    Throttled,
    TrialrunError,
    Unavailable,
)
from trialrun.testing.provider_contract import call

Fault = Literal[
    "accepted and never told",
    "lost on its way",
    "no money",
    "out of order",
    "a line twice",
    "a line missing",
    "a foreign line",
    "an unreadable line",
    "lines refused",
    "lines throttled",
    "every line failed",
    "expires in part",
    "expires in the queue",
    "refused as a whole",
    "a word nobody knows",
    "a late cancel",
    "polled too often",
    "key revoked",
    "download answered 502",
    "download cut",
    "results deleted",
]
CALLS = 8
LONG_S = 1.5 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class Far:
    """A far end and the way to it."""

    route: BatchRoute
    wind: Callable[[float], Awaitable[None]]
    """Let time pass there."""
    made: Callable[[], int]
    """How many batches exist there, whether or not anybody was told."""


class BatchRouteContract(ABC):
    """Subclass as `class TestMine(BatchRouteContract)` and give `far`, whose batches end within `LONG_S`."""

    model: ClassVar[str] = "openai/gpt-4.1-mini"
    key: ClassVar[str] = ""
    """The key that the route was given, to look for where it must not be."""
    faults: ClassVar[tuple[Fault, ...]] = get_args(Fault)
    """Those that the far end can be made to have."""
    unknown_batch: ClassVar[str] = "batch_nobody-knows"

    @abstractmethod
    def far(self, *faults: Fault) -> AbstractAsyncContextManager[Far]: ...

    # --- what tests share -------------------------------------------------------------------------------------------

    @pytest.fixture
    async def well(self) -> AsyncGenerator[Far, None]:
        async with self.far() as far:
            yield far

    def calls(self, count: int = CALLS) -> list[Call]:
        return [call(f"What about number {n}?", number=n, model=self.model) for n in range(count)]

    def pack(
        self, route: BatchRoute, folder: Path, *, count: int = CALLS, name: str = "p0123456789abcdef"
    ) -> PackFile:
        made = self.calls(count)
        lines = [route.line(_id(n), route.provider.prepare(this), this) for n, this in enumerate(made)]
        path = folder / f"{name}.jsonl"
        path.write_bytes(content := b"".join(lines))
        return PackFile(id=name, model=self.model, path=path, requests=count, size_bytes=len(content))

    async def begun(self, far: Far, folder: Path) -> tuple[PackFile, str]:
        pack = self.pack(far.route, folder)
        return pack, await far.route.create(pack, await far.route.upload(pack))

    async def ended(self, far: Far, batch: str) -> Look:
        """The batch when nothing changes any more."""
        await far.wind(LONG_S)
        look = await far.route.look(batch)
        for _ in range(20):
            if look.phase in ("ended", "failed", "gone"):
                break
            look = await far.route.look(batch)
        return look

    async def results(self, far: Far, batch: str, look: Look) -> list[Result]:
        found: list[Result] = []
        for result in look.results:
            content = b"".join([chunk async for chunk in far.route.fetch(batch, result)])
            found += [far.route.read(line) for line in content.splitlines()]
        return found

    async def outcome(self, folder: Path, *faults: Fault) -> list[Result]:
        """What a batch brings back when this goes wrong."""
        async with self.far(*faults) as far:
            _, batch = await self.begun(far, folder)
            look = await self.ended(far, batch)
            assert look.phase == "ended", look
            return await self.results(far, batch, look)

    def needs(self, *faults: Fault) -> None:
        for fault in faults:
            if fault not in self.faults:
                pytest.skip(f"the far end cannot have: {fault}")

    def check_no_key(self, text: str) -> None:
        assert not self.key or self.key not in text

    def check_every_line(self, look: Look, results: list[Result]) -> None:
        """Each request has an end: a result, or the word of the provider that it is not among those that ran."""
        ids = {result.id for result in results}
        assert len(ids) == len(results)
        assert ids <= {_id(n) for n in range(CALLS)}
        assert all(result.raw or result.reason for result in results)
        if look.is_stopped:
            assert None not in (look.done, look.failed)
            assert len(results) == (look.done or 0) + (look.failed or 0)
        else:
            assert len(results) == CALLS

    # --- there and back ---------------------------------------------------------------------------------------------

    async def test_r1_a_batch_brings_what_the_live_lane_brings(self, well: Far, tmp_path: Path) -> None:
        route = well.route
        _, batch = await self.begun(well, tmp_path)
        look = await self.ended(well, batch)
        results = {result.id: result for result in await self.results(well, batch, look)}
        assert sorted(results) == [_id(n) for n in range(CALLS)]
        for number, this in enumerate(self.calls()):
            raw = results[_id(number)].raw
            assert raw is not None
            live = await route.provider.send(this, route.provider.prepare(this), attempt=1, timeout_s=20)
            ours, theirs = route.provider.parse(raw, this.request), route.provider.parse(live, this.request)
            assert (ours.text, ours.finish) == (theirs.text, theirs.finish)
            usage = route.provider.meter(raw)
            assert usage is not None
            assert usage.tokens_out > 0
            self.check_no_key(repr(results[_id(number)]))

    async def test_r1_a_line_holds_the_live_body_byte_for_byte(self, well: Far) -> None:
        for number, this in enumerate(self.calls()):
            body = well.route.provider.prepare(this)
            line = well.route.line(_id(number), body, this)
            assert body in line
            assert line.endswith(b"\n")
            assert line.count(b"\n") == 1
            assert _id(number).encode() in line
            assert well.route.endpoint_of(this) == well.route.endpoint_of(self.calls()[0])
            self.check_no_key(line.decode())

    async def test_r1_order_means_nothing(self, tmp_path: Path) -> None:
        self.needs("out of order")
        results = await self.outcome(tmp_path, "out of order")
        assert sorted(result.id for result in results) == [_id(n) for n in range(CALLS)]

    async def test_r4_a_batch_is_under_way_until_it_ends(self, well: Far, tmp_path: Path) -> None:
        _, batch = await self.begun(well, tmp_path)
        first = await well.route.look(batch)
        assert first.phase in ("queued", "running")
        assert not first.results
        last = await self.ended(well, batch)
        assert last.phase == "ended"
        assert last.results
        assert last.word
        assert last.total in (None, CALLS)
        assert last.done in (None, CALLS)

    async def test_r3_what_was_made_is_listed(self, well: Far, tmp_path: Path) -> None:
        pack, batch = await self.begun(well, tmp_path)
        (listed,) = await well.route.listed()
        assert listed.batch == batch
        assert listed.requests in (None, CALLS)
        assert listed.word
        input_ = listed.input if well.route.anchor == "input" else ""
        assert await well.route.find(pack, input_) == [batch]

    async def test_r3_another_pack_is_not_found(self, well: Far, tmp_path: Path) -> None:
        await self.begun(well, tmp_path)
        other = self.pack(well.route, tmp_path, count=3, name="pother")
        assert await well.route.find(other, "file-nobody-knows") == []

    async def test_r2_uploading_again_begins_nothing(self, well: Far, tmp_path: Path) -> None:
        pack = self.pack(well.route, tmp_path)
        await well.route.upload(pack)
        handle = await well.route.upload(pack)
        assert well.made() == 0
        await well.route.create(pack, handle)
        assert well.made() == 1

    async def test_r4_a_batch_that_nobody_made_is_refused_or_gone(self, well: Far) -> None:
        try:
            look = await well.route.look(self.unknown_batch)
        except RequestRefused as error:
            refused = error
        else:
            assert look.phase == "gone"
            return
        assert refused.status == 404
        assert refused.fix

    async def test_r7_no_key_is_where_it_can_be_read(self, well: Far) -> None:
        self.check_no_key(f"{well.route!r} {vars(well.route)!r}")

    async def test_r4_a_cancelled_batch_ends_and_every_line_has_an_end(
        self, well: Far, tmp_path: Path
    ) -> None:
        _, batch = await self.begun(well, tmp_path)
        await well.route.cancel(batch)
        look = await self.ended(well, batch)
        results = await self.results(well, batch, look)
        if look.phase == "failed":
            assert not results
            return
        assert look.phase == "ended"
        self.check_every_line(look, results)

    async def test_r4_a_cancel_that_comes_too_late_changes_nothing(self, tmp_path: Path) -> None:
        self.needs("a late cancel")
        async with self.far("a late cancel") as far:
            _, batch = await self.begun(far, tmp_path)
            await far.route.cancel(batch)
            look = await self.ended(far, batch)
            assert look.phase == "ended"
            assert all(result.raw for result in await self.results(far, batch, look))

    # --- what goes wrong at the beginning ---------------------------------------------------------------------------

    async def test_r3_a_batch_that_was_made_though_nobody_was_told_is_found(self, tmp_path: Path) -> None:
        self.needs("accepted and never told")
        async with self.far("accepted and never told") as far:
            pack = self.pack(far.route, tmp_path)
            handle = await far.route.upload(pack)
            with pytest.raises(CallError) as caught:
                await far.route.create(pack, handle)
            assert caught.value.billed == "unknown"
            assert far.made() == 1
            (found,) = await far.route.find(pack, handle)
            look = await self.ended(far, found)
            results = await self.results(far, found, look)
            assert sorted(result.id for result in results) == [_id(n) for n in range(CALLS)]

    async def test_r3_a_batch_that_was_lost_on_its_way_is_not_found(self, tmp_path: Path) -> None:
        self.needs("lost on its way")
        async with self.far("lost on its way") as far:
            pack = self.pack(far.route, tmp_path)
            handle = await far.route.upload(pack)
            with pytest.raises(CallError) as caught:
                await far.route.create(pack, handle)
            assert caught.value.billed == "unknown"
            assert await far.route.find(pack, handle) == []
            assert far.made() == 0

    async def test_r2_an_account_without_money_makes_no_batch(self, tmp_path: Path) -> None:
        self.needs("no money")
        async with self.far("no money") as far:
            pack = self.pack(far.route, tmp_path)
            handle = await far.route.upload(pack)
            with pytest.raises(QuotaExhausted) as caught:
                await far.route.create(pack, handle)
            self.check_no_key(caught.value.report())
            assert far.made() == 0

    async def test_r4_a_pack_that_is_refused_as_a_whole_says_why(self, tmp_path: Path) -> None:
        self.needs("refused as a whole")
        async with self.far("refused as a whole") as far:
            _, batch = await self.begun(far, tmp_path)
            look = await self.ended(far, batch)
        assert look.phase == "failed"
        assert look.problems
        assert not look.results

    # --- what goes wrong on the way ---------------------------------------------------------------------------------

    async def test_r2_polling_too_often_and_a_revoked_key_are_told_apart(self, tmp_path: Path) -> None:
        self.needs("polled too often", "key revoked")
        expected: tuple[tuple[Fault, type[TrialrunError]], ...] = (
            ("polled too often", Throttled),
            ("key revoked", AuthRefused),
        )
        for fault, error in expected:
            async with self.far(fault) as far:
                _, batch = await self.begun(far, tmp_path)
                with pytest.raises(error) as caught:
                    await far.route.look(batch)
                self.check_no_key(f"{caught.value!r} {caught.value.report()}")

    async def test_r4_a_word_that_nobody_knows_is_unknown_and_passes(self, tmp_path: Path) -> None:
        self.needs("a word nobody knows")
        async with self.far("a word nobody knows") as far:
            _, batch = await self.begun(far, tmp_path)
            words: list[Phase] = []
            for _ in range(40):
                words.append((await far.route.look(batch)).phase)
                await far.wind(10)
            assert "unknown" in words
            assert (await self.ended(far, batch)).phase == "ended"

    async def test_r5_a_batch_that_expires_keeps_what_it_has(self, tmp_path: Path) -> None:
        self.needs("expires in part")
        async with self.far("expires in part") as far:
            _, batch = await self.begun(far, tmp_path)
            look = await self.ended(far, batch)
            results = await self.results(far, batch, look)
        assert look.phase == "ended"
        self.check_every_line(look, results)
        assert 0 < sum(result.raw is not None for result in results) < CALLS
        assert all(result.error is None for result in results)

    async def test_r4_a_batch_that_expires_in_the_queue_ran_nothing(self, tmp_path: Path) -> None:
        self.needs("expires in the queue")
        async with self.far("expires in the queue") as far:
            _, batch = await self.begun(far, tmp_path)
            look = await self.ended(far, batch)
            results = await self.results(far, batch, look)
        assert look.phase in ("ended", "failed")
        if look.phase == "ended":
            self.check_every_line(look, results)
        assert not any(result.raw for result in results)
        assert all(result.reason for result in results)

    # --- what goes wrong with the results ---------------------------------------------------------------------------

    async def test_r5_duplicate_missing_and_foreign_lines_come_as_they_are(self, tmp_path: Path) -> None:
        self.needs("a line twice", "a line missing", "a foreign line")
        ours = {_id(n) for n in range(CALLS)}
        twice = await self.outcome(tmp_path, "a line twice")
        assert len(twice) == CALLS + 1
        assert {result.id for result in twice} == ours
        missing = await self.outcome(tmp_path, "a line missing")
        assert len({result.id for result in missing} & ours) == CALLS - 1
        foreign = await self.outcome(tmp_path, "a foreign line")
        assert len({result.id for result in foreign} - ours) == 1

    async def test_r5_a_line_that_cannot_be_read_is_nobodys(self, tmp_path: Path) -> None:
        self.needs("an unreadable line")
        results = await self.outcome(tmp_path, "an unreadable line")
        assert sum(result.id == "" for result in results) == 1
        assert all(result.raw for result in results if result.id)

    async def test_r5_an_error_in_a_line_is_what_it_would_be_live(self, tmp_path: Path) -> None:
        self.needs("lines refused", "lines throttled")
        expected: tuple[tuple[Fault, type[CallError]], ...] = (
            ("lines refused", RequestRefused),
            ("lines throttled", Throttled),
        )
        for fault, error in expected:
            results = await self.outcome(tmp_path, fault)
            wrong = [result.error for result in results if result.error]
            assert wrong
            assert all(type(each) is error and each.billed == "no" for each in wrong)
            assert any(result.raw for result in results)

    async def test_r5_a_batch_in_which_everything_failed_has_results(self, tmp_path: Path) -> None:
        self.needs("every line failed")
        results = await self.outcome(tmp_path, "every line failed")
        assert sorted(result.id for result in results) == [_id(n) for n in range(CALLS)]
        assert all(isinstance(result.error, Unavailable) for result in results)

    async def test_r6_a_download_that_breaks_is_unavailable_and_the_next_is_whole(
        self, tmp_path: Path
    ) -> None:
        self.needs("download answered 502", "download cut")
        both: tuple[Fault, ...] = ("download answered 502", "download cut")
        for fault in both:
            async with self.far(fault) as far:
                _, batch = await self.begun(far, tmp_path)
                look = await self.ended(far, batch)
                with pytest.raises(Unavailable) as caught:
                    await self.results(far, batch, look)
                assert caught.value.billed == "no"
                results = await self.results(far, batch, look)
                assert sorted(result.id for result in results) == [_id(n) for n in range(CALLS)]

    async def test_r6_results_that_were_deleted_are_gone(self, tmp_path: Path) -> None:
        self.needs("results deleted")
        async with self.far("results deleted") as far:
            _, batch = await self.begun(far, tmp_path)
            look = await self.ended(far, batch)
            if look.phase != "gone":
                with pytest.raises(RequestRefused) as caught:
                    await self.results(far, batch, look)
                assert caught.value.status == 404

    async def test_r5_no_bytes_make_reading_raise(self, well: Far, tmp_path: Path) -> None:
        _, batch = await self.begun(well, tmp_path)
        look = await self.ended(well, batch)
        content = b"".join([chunk async for chunk in well.route.fetch(batch, look.results[0])])
        line = content.splitlines()[0]
        cuts = [line[:end] for end in range(0, len(line), max(1, len(line) // 60))]
        for garbage in (*cuts, b"null", b"[]", b"{}", b"3", b"<html>", b"\xff\xfe", b"{" * 5000):
            assert well.route.read(garbage).raw is None


def _id(number: int) -> str:
    return f"warm-abc-r{number}-c{number}-sabcde"
