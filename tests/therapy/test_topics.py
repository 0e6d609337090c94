"""The map of topics: distances against another implementation, words, and where a counsellor can go."""

import itertools
from collections.abc import Mapping
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.procedures.therapy.motivation.exploring import DEEPEST, Move, Stack, begun, choices, moved
from trialrun.procedures.therapy.motivation.topics import Topics, by_words, distances, our_topics, topics_of

OURS = our_topics()
NODES = [f"n{number}" for number in range(8)]
ROADS = st.dictionaries(
    st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), st.integers(1, 3), max_size=20
)


def both_ways(roads: dict[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {node: {} for node in NODES}
    for (one, other), weight in roads.items():
        if one != other:
            found[one][other] = found[other][one] = weight
    return found


def by_networkx(roads: Mapping[str, Mapping[str, int]]) -> Any:
    graph: Any = nx.DiGraph()
    graph.add_nodes_from(roads)
    graph.add_weighted_edges_from(
        (one, other, weight) for one, ways in roads.items() for other, weight in ways.items()
    )
    return dict(nx.all_pairs_dijkstra_path_length(graph))


@given(ROADS.map(both_ways))
def test_distances_are_those_of_a_reference_library(roads: dict[str, dict[str, int]]):
    expected = by_networkx(roads)
    assert {start: distances(roads, start) for start in NODES} == expected


def test_the_distances_of_our_map_are_those_of_a_reference_library():
    expected = by_networkx(OURS.roads)
    assert {start: distances(OURS.roads, start) for start in OURS.roads} == expected
    assert all(set(found) == set(OURS.roads) for found in expected.values()), "every topic can be reached"


def test_all_grades_of_engagement_occur_on_our_map():
    found = distances(OURS.roads, "being an example")
    grades = [0 if d == 0 else 3 if d <= 3 else 5 if d <= 5 else 9 for d in found.values()]
    assert {0, 3, 5, 9} == set(grades)


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("How do you sleep at night, and are you tired by day?", "sleep"),
        ("What would you do with the money, your income and spending?", "finances"),
        ("Is it about your driving licence, or an accident?", "driving licence"),
        ("Hello there!", None),
        ("", None),
    ],
)
def test_words_alone_find_an_obvious_topic_and_none_where_there_is_none(text: str, topic: str | None):
    assert by_words(OURS, text) == topic


@given(st.data(), st.integers(1, 12))
def test_a_counsellor_walks_down_the_tree_and_back_and_never_off_it(data: st.DataObject, steps: int):
    stack: Stack = (data.draw(st.sampled_from(OURS.top)),)
    for _ in range(steps):
        open_ = choices(OURS, stack)
        move, topic = open_[data.draw(st.sampled_from(sorted(open_)))]
        before, stack = stack, moved(stack, move, topic)
        assert 1 <= len(stack) <= DEEPEST
        assert stack[0] in OURS.top
        assert all(OURS.parents[child] == parent for parent, child in itertools.pairwise(stack))
        assert (stack == before) == (move is Move.STAY)


def test_the_first_topic_is_taken_when_it_is_likely_or_when_time_is_up():
    assert begun({"health": 51, "self": 3}, 1) == ("health",)
    assert begun({"health": 50, "self": 3}, 10) == ()
    assert begun({"health": 5, "self": 7}, 11) == ("self",)


def test_a_map_of_the_users_own_has_the_same_weights():
    topics: Topics = topics_of(
        {
            "a": {"about": "x"},
            "b": {"about": "x", "parent": "a"},
            "c": {"about": "x", "parent": "a", "near": ["d"]},
            "d": {"about": "x"},
        }
    )
    assert topics.roads["b"] == {"a": 1, "c": 2}
    assert topics.roads["d"] == {"c": 3}
    assert topics.top == ("a", "d")
