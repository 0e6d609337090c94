"""Marks are a set of names in little memory."""

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from trialrun.core.marks import Marks

_NAMES = st.text(alphabet="ab/-0", max_size=3)
_DEEDS = st.lists(st.tuples(st.sampled_from(["add", "discard"]), _NAMES), max_size=400)


@given(_DEEDS)
def test_marks_hold_what_a_set_would_hold(deeds: list[tuple[str, str]]):
    marks, names = Marks(), set[str]()
    for deed, name in deeds:
        getattr(marks, deed)(name)
        getattr(names, deed)(name)
        assert len(marks) == len(names)
        assert (name in marks) == (name in names)
    assert all(name in marks for name in names)
    assert not any(name in marks for _, name in deeds if name not in names)


def test_a_mark_takes_few_bytes_and_what_is_gone_takes_none():
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        marks = Marks(f"warm-abcdefghijkl-r{number}/1#1" for number in range(20_000))
        after, _ = tracemalloc.get_traced_memory()
        assert (after - before) / 20_000 < 60
        for number in range(20_000):
            marks.discard(f"warm-abcdefghijkl-r{number}/1#1")
        gone, _ = tracemalloc.get_traced_memory()
        assert gone - before < 10_000
    finally:
        tracemalloc.stop()


def test_a_table_in_which_names_come_and_go_does_not_grow():
    tracemalloc.start()
    try:
        marks = Marks(["one that stays"])
        for number in range(20_000):
            marks.add(f"r{number}")
            marks.discard(f"r{number}")
        assert tracemalloc.get_traced_memory()[0] < 10_000
        assert "one that stays" in marks
    finally:
        tracemalloc.stop()
