"""The stages of change as a machine: M1 to M5 hold whatever is heard, proposed and drawn."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trialrun.procedures.therapy.motivation import machine as m
from trialrun.procedures.therapy.motivation.machine import Action, Mind, Stage

ITEMS = st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=4).map(tuple)
MINDS = st.builds(
    Mind,
    stage=st.sampled_from(Stage),
    receptivity=st.floats(1, 5),
    engagement=st.integers(1, 4),
    off_topic=st.integers(0, 6),
    heard=st.integers(0, 40),
    personas=ITEMS,
    beliefs=ITEMS,
    plans=ITEMS,
)
PROPOSED = st.dictionaries(st.sampled_from([str(action) for action in Action]), st.integers(-50, 500))
ORDER = list(Stage)


@given(MINDS, PROPOSED)
def test_weights_are_of_the_stage_and_nothing_impossible_has_one(mind: Mind, proposed: dict[str, int]):
    found = m.weights(mind, proposed)
    assert set(found) == set(m.ACTIONS[mind.stage])
    assert sum(found.values()) > 0
    assert all(weight >= 0 for weight in found.values())
    for action, weight in found.items():
        if not m.is_possible(mind, action):
            assert weight == 0
    if not mind.beliefs:
        assert not found.get(Action.BLAME)
        assert not found.get(Action.HESITATE)
    if not mind.personas:
        assert not found.get(Action.INFORM)
    if not mind.plans:
        assert not found.get(Action.PLAN)
    assert Action.TERMINATE not in found, "nobody leaves on a whim"


@given(MINDS, PROPOSED, st.floats(0, 1, exclude_max=True))
def test_what_is_drawn_has_a_weight(mind: Mind, proposed: dict[str, int], fraction: float):
    weights = m.weights(mind, proposed)
    assert weights[m.drawn(weights, fraction)] > 0


@given(MINDS, PROPOSED, st.integers(2, 9))
def test_a_generous_model_does_not_drown_what_people_do(mind: Mind, proposed: dict[str, int], times: int):
    """M6: in precontemplation proposal and prior have one half each, whatever scale the model likes."""
    mind = replace(mind, stage=Stage.PRECONTEMPLATION, personas=("p",), beliefs=("b",))
    small = {name: min(10, max(0, weight)) for name, weight in proposed.items()}
    large = {name: weight * times for name, weight in small.items()}
    assert m.weights(mind, small) == pytest.approx(m.weights(mind, large))
    found, prior = m.weights(mind, small), m.prior(mind.receptivity)
    assert all(found[action] >= prior[action] for action in found)
    is_any = any(small.get(action) for action in m.ACTIONS[mind.stage])
    assert sum(found.values()) - sum(prior.values()) == pytest.approx(100 if is_any else 0)


@given(MINDS)
def test_words_about_nothing_in_particular_move_nothing(mind: Mind):
    assert m.addressed(mind) == replace(mind, heard=mind.heard + 1)


def test_draws_follow_the_weights():
    weights = {Action.DENY: 1, Action.ENGAGE: 0, Action.INFORM: 3}
    drawn = [m.drawn(weights, step / 1000) for step in range(1000)]
    assert drawn.count(Action.DENY) == 250
    assert drawn.count(Action.INFORM) == 750


@pytest.mark.parametrize(
    ("receptivity", "row"),
    [
        (1.0, (23, 28, 15, 11, 22)),
        (1.99, (23, 28, 15, 11, 22)),
        (2.0, (20, 25, 10, 15, 30)),
        (3.0, (19, 21, 11, 13, 36)),
        (4.99, (9, 20, 13, 14, 44)),
        (5.0, (7, 13, 4, 16, 60)),
    ],
)
def test_the_prior_follows_the_band_of_receptivity(receptivity: float, row: tuple[int, ...]):
    prior = m.prior(receptivity)
    order = (Action.DENY, Action.DOWNPLAY, Action.BLAME, Action.ENGAGE, Action.INFORM)
    assert tuple(prior[action] for action in order) == row
    mind = Mind(
        stage=Stage.PRECONTEMPLATION, receptivity=receptivity, personas=("p",), beliefs=("b",), plans=("x",)
    )
    assert m.weights(mind, {}) == prior, "nothing proposed: people who were observed decide"
    half = m.weights(mind, {"deny": 10, "inform": 10})
    assert (half[Action.DENY], half[Action.BLAME]) == (row[0] + 50, row[2])
    contemplating = replace(mind, stage=Stage.CONTEMPLATION)
    assert sum(m.weights(contemplating, {"engage": 7}).values()) == 7, "the prior is precontemplation's alone"


@given(MINDS, st.one_of(st.none(), st.integers(0, 12)), st.floats(0, 4))
def test_engagement_and_receptivity_stay_in_their_bounds(mind: Mind, distance: int | None, drift: float):
    after = m.listened(mind, distance, drift=drift)
    assert 1 <= after.receptivity <= 5
    assert after.engagement in (1, 2, 3, 4)
    assert after.heard == mind.heard + 1
    assert (after.stage, after.beliefs, after.plans) == (mind.stage, mind.beliefs, mind.plans)


@pytest.mark.parametrize(
    ("distance", "engagement"), [(0, 4), (1, 3), (3, 3), (4, 2), (5, 2), (6, 1), (99, 1), (None, 1)]
)
def test_engagement_follows_the_distance(distance: int | None, engagement: int):
    assert m.listened(Mind(stage=Stage.PRECONTEMPLATION, receptivity=3), distance).engagement == engagement


@given(MINDS)
def test_receptivity_moves_with_engagement_unless_drift_is_off(mind: Mind):
    near, far = m.listened(mind, 0), m.listened(mind, 9)
    assert near.receptivity >= mind.receptivity >= far.receptivity or mind.receptivity in (
        near.receptivity,
        1,
        5,
    )
    assert near.receptivity >= far.receptivity
    kept = m.listened(mind, 0, drift=0).receptivity
    assert kept == pytest.approx(mind.receptivity, abs=1e-6)


def test_being_far_off_counts_only_after_patience_has_run_out_and_a_near_word_forgives():
    mind = Mind(stage=Stage.PRECONTEMPLATION, receptivity=3)
    for _ in range(10):
        mind = m.listened(mind, 9)
    assert mind.off_topic == 0
    for count in range(1, 5):
        mind = m.listened(mind, 9)
        assert mind.off_topic == count
        assert m.forced(mind) is None
    assert m.listened(mind, 5).off_topic == 4, "halfway neither counts nor forgives"
    assert m.listened(mind, 2).off_topic == 0
    assert m.forced(m.listened(mind, 9)) is Action.TERMINATE
    later = replace(m.listened(mind, 9), stage=Stage.CONTEMPLATION)
    assert m.forced(later) is None, "who already wavers does not walk out"


@given(MINDS, st.data())
def test_beliefs_and_plans_are_used_up_and_never_come_back(mind: Mind, data: st.DataObject):
    action = data.draw(st.sampled_from([a for a in m.ACTIONS[mind.stage] if m.is_possible(mind, a)]))
    items = m.items_for(mind, action)
    item = data.draw(st.sampled_from(list(items))) if items else None
    after = m.acted(mind, action, item)
    used = 1 if action is Action.HESITATE else 0
    assert len(after.beliefs) == len(mind.beliefs) - used
    if used:
        assert sorted([*after.beliefs, str(item)]) == sorted(mind.beliefs)
    assert after.plans == (mind.plans[1:] if action is Action.PLAN else mind.plans)
    assert after.personas == mind.personas, "a fact about oneself can be told again"


@given(MINDS, st.data())
def test_stages_only_move_forward_and_by_their_own_doors(mind: Mind, data: st.DataObject):
    settled = m.settled(mind)
    assert settled.stage in (mind.stage, Stage.PREPARATION)
    touched = m.touched(settled)
    assert (touched.stage is Stage.MOTIVATION) == (
        settled.stage in (Stage.PRECONTEMPLATION, Stage.MOTIVATION)
    )
    action = m.forced(touched) or data.draw(st.sampled_from(m.ACTIONS[touched.stage]))
    items = m.items_for(touched, action)
    after = m.acted(touched, action, items[0] if items else None)
    assert ORDER.index(after.stage) >= ORDER.index(mind.stage)
    assert after.stage is not Stage.MOTIVATION, "being struck lasts one reply"
    if after.stage is Stage.ACTION and touched.stage is not Stage.ACTION:
        assert (touched.stage, after.plans) == (Stage.PREPARATION, ())
        assert action in (Action.ACCEPT, Action.PLAN)


def test_every_stage_can_be_reached_from_the_first():
    start = Mind(
        stage=Stage.PRECONTEMPLATION, receptivity=3, personas=("p",), beliefs=("a", "b"), plans=("x", "y")
    )
    seen: set[Stage] = set()
    todo = [start]
    known: set[Mind] = set()
    while todo:
        mind = todo.pop()
        if mind in known:
            continue
        known.add(mind)
        settled = m.settled(mind)
        for heard in (settled, m.touched(settled)):
            seen.add(heard.stage)
            choices = [forced] if (forced := m.forced(heard)) else list(m.ACTIONS[heard.stage])
            for action in [a for a in choices if m.is_possible(heard, a)]:
                todo += [m.acted(heard, action, item) for item in m.items_for(heard, action) or [None]]
    assert seen == set(Stage)
    ends = [mind for mind in known if mind.stage is Stage.ACTION]
    assert ends
    assert all(not mind.plans for mind in ends)


def test_a_person_without_plans_can_still_get_ready():
    mind = Mind(stage=Stage.PREPARATION, receptivity=3)
    assert m.weights(mind, {"plan": 100, "accept": 1}) == {
        Action.INFORM: 0,
        Action.ENGAGE: 0,
        Action.REJECT: 0,
        Action.ACCEPT: 1,
        Action.PLAN: 0,
    }
    assert m.acted(mind, Action.ACCEPT, None).stage is Stage.ACTION
    assert m.acted(mind, Action.REJECT, None).stage is Stage.PREPARATION
