"""The rows of a pack are found by their ids, in any order, without being in memory."""

import random
import resource
from decimal import Decimal
from pathlib import Path

import pytest

from trialrun.core.batches import Row, Spool
from trialrun.core.errors import StoreError
from trialrun.store.packs import FilePacks


def _packed(folder: Path, rows: list[Row]) -> FilePacks:
    packs = FilePacks(folder)
    spool = packs.spool("x/m")
    for row in rows:
        spool.add(b"{}\n", row)
    spool.seal("pabc")
    return packs


def _row(number: int) -> Row:
    return Row(
        f"r{number}-c1-s" + "x" * (number % 50), f"r{number}", "warm", "1", 1, Decimal("0.07"), 0, number
    )


def test_every_row_is_found_by_its_id_in_any_order(tmp_path: Path):
    rows = [_row(number) for number in range(3_000)]
    directory = _packed(tmp_path, rows).directory("pabc")
    assert len(directory) == len(rows)
    for chance in (None, random.Random(1)):
        order = list(range(len(rows)))
        if chance is not None:
            chance.shuffle(order)
        for number in order:
            assert directory.number_of(rows[number].id) == number
            assert directory.row(number) == rows[number]
    assert directory.number_of("somebody else's") is None
    assert directory.number_of("") is None
    directory.close()


def test_a_row_longer_than_a_block_is_read_whole(tmp_path: Path):
    long = Row("long", "r1" + "-" * 9_000, "warm", "1", 1, None, 0)
    directory = _packed(tmp_path, [_row(0), long, _row(2)]).directory("pabc")
    assert [directory.row(number) for number in (1, 0, 2)] == [long, _row(0), _row(2)]
    directory.close()


def test_rows_that_were_left_behind_are_asked_for(tmp_path: Path):
    packs = _packed(tmp_path, [_row(0)])
    (tmp_path / "batches" / "pabc" / "rows.jsonl").unlink()
    with pytest.raises(StoreError, match="is not there") as told:
        packs.directory("pabc")
    assert "batches" in told.value.fix


def _fill(spool: Spool, requests: int) -> None:
    for number in range(requests):
        spool.add(b'{"body": "%s"}\n' % (b"x" * 1_000), _row(number))


def test_a_pack_on_a_disk_that_was_full_for_a_moment_is_not_sealed(tmp_path: Path):
    """What was not written is known to nobody: requests and rows would not be the same calls any more."""
    spool = FilePacks(tmp_path).spool("x/m")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, limits[1]))
    try:
        with pytest.raises(StoreError, match="full"):
            _fill(spool, 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with pytest.raises(StoreError, match="full"):
        spool.add(b"{}\n", _row(2_001))
    with pytest.raises(StoreError, match="full"):
        spool.seal("pabc")
    spool.discard()
    assert not any((tmp_path / "batches").iterdir())
