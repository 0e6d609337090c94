"""Which conditions there are, in what order their trials are planned, and what they are called."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import islice, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.studies import PROCEDURES, small
from trialrun.core import chance, identity
from trialrun.core.design import Design, Schedule
from trialrun.core.reading.parse import study_of
from trialrun.core.study import Factor, Level, Study

Labels = Mapping[str, str]


def factor(name: str, labels: list[str]) -> Factor:
    return Factor(name=name, levels=tuple(Level(label=label, value=label, sets=()) for label in labels))


def factorial(*sizes: int, **more: object) -> Study:
    factors = tuple(factor(f"f{n}", [f"l{i}" for i in range(size)]) for n, size in enumerate(sizes))
    return Study(name="s", factors=factors, **more)  # pyright: ignore[reportArgumentType]


def labels_of(design: Design) -> list[dict[str, str]]:
    return [condition.labels for condition in design]


NAMES = st.text("abcdefgh-_XYZ 0123456789é~+", min_size=1, max_size=12).filter(
    lambda text: bool(text.strip())
)
FACTORS = st.dictionaries(NAMES, st.lists(NAMES, min_size=1, max_size=4, unique=True), max_size=4)


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Small studies with zips, lists, exclusions and inclusions."""
    levels = draw(FACTORS)
    names = sorted(levels)
    full = st.fixed_dictionaries({name: st.sampled_from(levels[name]) for name in names})
    partial = full.map(dict).flatmap(
        lambda row: st.sets(st.sampled_from(names), min_size=1).map(
            lambda keys: {key: row[key] for key in keys}
        )
    )
    by_size: dict[int, list[str]] = {}
    for name in names:
        by_size.setdefault(len(levels[name]), []).append(name)
    zips = tuple(tuple(group) for group in by_size.values() if len(group) > 1 and draw(st.booleans()))
    rows = st.lists(full, max_size=4, unique_by=lambda row: tuple(sorted(row.items())))
    some = st.just([]) if not names else rows
    is_listed = bool(names) and draw(st.booleans())
    return Study(
        name="s",
        factors=tuple(factor(name, found) for name, found in levels.items()),
        zips=() if is_listed else zips,
        listed=tuple(draw(rows.filter(bool))) if is_listed else (),
        included=tuple(draw(some)),
        excluded=tuple(draw(st.lists(partial, max_size=4))) if names else (),
        replicates=draw(st.integers(1, 4)),
        seed=draw(st.integers(0, 5)),
    )


def expected(study: Study) -> set[tuple[tuple[str, str], ...]]:
    """The conditions by the book: cross or list, leave out, add."""
    names = [f.name for f in study.factors]
    zipped = {name: group for group in study.zips for name in group}
    place = {f.name: {level.label: i for i, level in enumerate(f.levels)} for f in study.factors}
    rows: list[Labels] = list(study.listed) or [
        dict(zip(names, row, strict=True))
        for row in product(*([x.label for x in f.levels] for f in study.factors))
    ]
    kept = [
        row
        for row in rows
        if all(len({place[name][row[name]] for name in group}) == 1 for group in set(zipped.values()))
        and not any(all(row[name] == label for name, label in out.items()) for out in study.excluded)
    ]
    return {tuple(sorted(row.items())) for row in [*kept, *study.included]}


@given(studies())
def test_the_conditions_are_those_of_the_book(study: Study) -> None:
    design = Design(study)
    found = [tuple(sorted(labels.items())) for labels in labels_of(design)]
    assert len(found) == len(set(found))
    assert set(found) == expected(study)
    assert design.count() == len(found)
    assert design.size >= len(found)


@given(studies())
def test_a_condition_is_found_by_its_labels(study: Study) -> None:
    design = Design(study)
    for condition in design:
        assert design.by_labels(condition.labels) == condition
    names = [f.name for f in study.factors]
    for row in product(*([level.label for level in f.levels] for f in study.factors)):
        labels = dict(zip(names, row, strict=True))
        assert (design.by_labels(labels) is not None) == (tuple(sorted(labels.items())) in expected(study))
    assert design.by_labels({"no such factor": "x"}) is None


@given(studies(), st.randoms())
def test_the_order_of_the_file_changes_no_id_and_no_place(study: Study, random: Random) -> None:
    def turned(found: tuple[Factor, ...]) -> tuple[Factor, ...]:
        zipped = {name for group in study.zips for name in group}
        shuffled = [
            Factor(
                name=f.name,
                levels=f.levels if f.name in zipped else tuple(random.sample(f.levels, len(f.levels))),
            )
            for f in found
        ]
        random.shuffle(shuffled)
        return tuple(shuffled)

    other = Study(
        name="other",
        factors=turned(study.factors),
        zips=tuple(group[::-1] for group in study.zips[::-1]),
        listed=study.listed[::-1],
        included=study.included[::-1],
        excluded=study.excluded[::-1],
        replicates=study.replicates,
        seed=study.seed,
    )
    assert slots_of(other) == slots_of(study)


def slots_of(study: Study) -> list[tuple[int, int, str, int]]:
    return [
        (slot.block, slot.planned, slot.condition.id, slot.replicate)
        for slot in Schedule(study, Design(study))
    ]


@given(studies())
def test_stopped_anywhere_all_conditions_have_the_same_n(study: Study) -> None:
    design = Design(study)
    every = {condition.id for condition in design}
    counts: Counter[str] = Counter(dict.fromkeys(every, 0))
    replicates: dict[str, list[int]] = {id_: [] for id_ in every}
    for place, slot in enumerate(Schedule(study, design), start=1):
        counts[slot.condition.id] += 1
        replicates[slot.condition.id].append(slot.replicate)
        assert max(counts.values()) - min(counts.values()) <= 1
        assert (slot.planned, slot.replicate) == (place, slot.block)
    assert set(counts.values()) <= {study.replicates}
    assert all(found == list(range(1, study.replicates + 1)) for found in replicates.values())
    assert len(Schedule(study, design)) == counts.total()


def test_more_replicates_and_levels_leave_the_ids_of_the_others() -> None:
    assert trial_ids(factorial(2, 3, replicates=2)) < trial_ids(factorial(3, 4, replicates=3))
    assert slots_of(factorial(2, 3, replicates=3))[:12] == slots_of(factorial(2, 3, replicates=2))


def trial_ids(study: Study) -> set[str]:
    return {identity.trial_id(slot.condition.id, slot.replicate) for slot in Schedule(study, Design(study))}


def test_a_run_may_begin_at_a_later_block() -> None:
    study = factorial(2, 3, replicates=4, excluded=({"f0": "l1", "f1": "l2"},))
    schedule = Schedule(study, Design(study))
    assert [slot for slot in schedule if slot.block >= 3] == list(schedule.blocks(3))


def test_blocks_have_orders_of_their_own_that_follow_from_the_seed() -> None:
    orders = [
        tuple(id_ for block, _, id_, _ in slots_of(factorial(4, 4, replicates=6)) if block == b)
        for b in range(1, 7)
    ]
    assert len(set(orders)) == 6
    assert (
        slots_of(factorial(4, 4, seed=1))
        == slots_of(factorial(4, 4, seed=1))
        != slots_of(factorial(4, 4, seed=2))
    )


def test_a_study_without_factors_has_one_condition() -> None:
    design = Design(factorial())
    assert design.count() == design.size == 1
    assert [c.title for c in design] == ["(no factors)"]
    assert design.by_labels({}) == next(iter(design))


def test_a_level_that_goes_without_saying_may_be_left_out() -> None:
    design = Design(factorial(1, 2))
    found = design.by_labels({"f1": "l1"})
    assert found is not None
    assert found.labels == {"f0": "l0", "f1": "l1"}


def test_the_sections_of_the_file_reach_the_design() -> None:
    more = (
        "factors:\n  a: {settings.max_turns: [1, 2]}\n  b: {parties.client.values.x: [p, q]}\n"
        "  c: {parties.client.values.y: [u, v]}\n"
        "design: {zip: [[a, b]], exclude: [{a: 1, c: v}], include: [{a: 1, b: q, c: v}]}\n"
    )
    rows = {tuple(condition.labels.values()) for condition in Design(small(more))}
    assert rows == {("1", "p", "u"), ("2", "q", "u"), ("2", "q", "v"), ("1", "q", "v")}
    listed = (
        more[: more.index("design")]
        + "design: {list: [{a: 1, b: p, c: u}, {a: 2, b: p, c: u}], exclude: [{a: 2}]}\n"
    )
    assert [tuple(condition.labels.values()) for condition in Design(small(listed))] == [("1", "p", "u")]


def test_exclusions_are_counted_without_walking() -> None:
    pairs = tuple({f"f{i}": f"l{i}", f"f{i + 1}": "l0"} for i in range(5))
    study = factorial(*([50] * 6), excluded=pairs)
    assert Design(study).count() < 50**6 == Design(study).size


def test_a_million_conditions_take_no_memory_and_come_in_any_part() -> None:
    study = factorial(100, 100, 100)
    design = Design(study)
    assert design.count() == 1_000_000
    assert len({slot.condition.id for slot in islice(Schedule(study, design), 20_000)}) == 20_000
    last = design.condition(999_999)
    assert last is not None
    assert last.labels == {"f0": "l99", "f1": "l99", "f2": "l99"}


@pytest.mark.long
def test_many_slots_take_no_memory() -> None:
    import tracemalloc

    study = factorial(50, 50, 80)
    tracemalloc.start()
    try:
        count = sum(1 for _ in Schedule(study, Design(study)))
        most_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 200_000
    assert most_bytes < 2_000_000


# --- ids ----------------------------------------------------------------------------------------------------------

LONG = re.compile(r"[a-z][a-z0-9_-]*\Z")


@given(st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=60), max_size=6), st.data())
def test_ids_fit_where_providers_take_them(levels: dict[str, str], data: st.DataObject) -> None:
    condition = identity.condition_id(levels)
    fork = data.draw(st.sampled_from(["", identity.fork_tag("t", 3, {"a": 1})]))
    trial = identity.trial_id(condition, data.draw(st.integers(0, identity.REPLICATE_LIMIT)), fork=fork)
    address = ".".join(
        data.draw(st.lists(st.from_regex(r"[a-z0-9]{1,9}", fullmatch=True), min_size=1, max_size=9))
    )
    call = identity.call_id(trial, address, data.draw(st.integers(1, 99)))
    for id_ in (condition, trial, call):
        assert LONG.match(id_)
        assert len(id_) <= 57


LEVEL_MAPS = st.dictionaries(st.text(max_size=6), st.text(max_size=6), max_size=4)


@given(LEVEL_MAPS, LEVEL_MAPS)
def test_two_conditions_never_share_an_id(one: dict[str, str], other: dict[str, str]) -> None:
    assert (identity.condition_id(one) == identity.condition_id(other)) == (one == other)


def test_a_hundred_thousand_conditions_have_ids_of_their_own() -> None:
    assert len({condition.id for condition in Design(factorial(50, 50, 40))}) == 100_000


# --- orders -------------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 3000) | st.integers(4090, 4110) | st.integers(4097, 20_000),
    st.binary(min_size=32, max_size=32),
)
def test_an_order_holds_every_place_once(size: int, key: bytes) -> None:
    assert sorted(chance.permuted(size, key)) == list(range(size))


def test_all_orders_of_four_are_equally_likely() -> None:
    from scipy.stats import chi2

    draws = 24_000
    counts = Counter(tuple(chance.permuted(4, chance.derive(b"orders", n))) for n in range(draws))
    assert len(counts) == 24
    expected_each = draws / 24
    statistic = sum((count - expected_each) ** 2 / expected_each for count in counts.values())
    assert statistic < chi2.ppf(0.999, 23)


def test_a_large_order_sends_every_place_everywhere() -> None:
    size, bins, draws = 5000, 10, 400
    counts: Counter[tuple[int, int]] = Counter()
    for n in range(draws):
        order = chance.permuted(size, chance.derive(b"large", n))
        counts.update(
            (place * bins // 50, value * bins // size) for place, value in enumerate(islice(order, 50))
        )
    each = draws * 50 / bins**2
    statistic = sum((counts[i, j] - each) ** 2 / each for i in range(bins) for j in range(bins))
    assert statistic < 149  # chi-square, 99 degrees of freedom, p = 0.001


def test_a_file_may_describe_a_million_conditions() -> None:
    document = {
        "study": "big",
        "procedure": "conversation",
        "parties": {"a": {"model": "x/y"}, "b": {"model": "x/y"}},
        "factors": {f"f{i}": {f"parties.a.values.v{i}": [f"x{j}" for j in range(100)]} for i in range(3)},
    }
    study = study_of(document, read=lambda _: None, procedures=PROCEDURES)
    assert Design(study).count() == 1_000_000
