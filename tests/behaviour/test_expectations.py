"""What a plan expects is what a study takes: its estimates beside rehearsals, whatever its trials depend on."""

from pathlib import Path

import pytest

import trialrun as tr
from tests.behaviour.support import OnePrice, make_plan
from trialrun.app.previewing import preview
from trialrun.core.ports import Lab
from trialrun.core.study import Trial
from trialrun.store.archive import Archive

EXAMPLES = Path(__file__).parents[2] / "examples"


async def gamble(trial: Trial, lab: Lab) -> dict[str, object]:
    """One call, or nine: by chance alone."""
    for _ in range(9 if lab.random().random() < 0.5 else 1):
        await lab.ask("a", "And?")
    return {}


async def test_a_plan_averages_over_what_is_left_to_chance(tmp_path: Path) -> None:
    found = await preview(make_plan(tmp_path, gamble), OnePrice())
    assert 3.0 <= found.one_trial.calls.low <= 7.0, "one call or nine, as often"
    dearest = max(len(walk.calls) for each in found.walked for pair in each.draws for walk in pair)
    cheapest = min(len(walk.calls) for each in found.walked for pair in each.draws for walk in pair)
    assert (cheapest, dearest) == (1, 9)
    assert found.one_trial.cost_usd is not None
    assert found.one_trial.ceiling_usd is not None
    assert found.one_trial.ceiling_usd > 1.5 * found.one_trial.cost_usd.high, "the dearest, not the average"


async def test_a_draw_that_comes_to_no_end_is_left_out(tmp_path: Path) -> None:
    async def brittle(trial: Trial, lab: Lab) -> dict[str, object]:
        await lab.ask("a", "And?")
        if lab.random().random() < 0.3:
            raise ValueError
        return {}

    factors = {"mood": {"parties.a.values.mood": ["calm"]}}
    for seed in range(20):
        try:
            found = await preview(make_plan(tmp_path, brittle, seed=seed, factors=factors), OnePrice())
        except tr.TrialrunError:
            continue  # the first draw, by which the study is judged
        assert all(not walk.stopped_at for each in found.walked for pair in each.draws for walk in pair)
        assert {len(each.draws) for each in found.walked} != {16}
        return
    pytest.fail("no seed let the first walk end")


@pytest.mark.parametrize("name", ["warmth", "therapy", "scenarios", "pressure"])
def test_the_examples_take_what_their_plans_say(tmp_path: Path, name: str) -> None:
    study = EXAMPLES / name / "study.yaml"
    planned = tr.plan(study, lane="rehearsal")
    tr.run(study, lane="rehearsal", folder=tmp_path / "out", progress=False)
    with Archive(tmp_path / "out") as archive:
        total = archive.total()
    assert planned.cost_usd is not None
    low, high = (float(usd) for usd in planned.cost_usd)
    assert 0.9 * low <= float(total.spent_usd) <= 1.1 * high
    assert planned.ceiling_usd is not None
    assert total.spent_usd < planned.ceiling_usd
