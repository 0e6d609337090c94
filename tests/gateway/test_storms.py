"""A limit that is cut to a tenth in the middle of a study, over HTTP: judged by the far end's own book."""

from pathlib import Path

import pytest

from bench.storm import FACTOR, Ridden, Weather, ride
from trialrun.app.exits import Exit
from trialrun.store.archive import Archive

SHORT = Weather(rate=100, open_trials=200, before_s=3, storm_s=5, after_s=8)
LONG = Weather(rate=100, open_trials=200, before_s=10, storm_s=60, after_s=20)


@pytest.mark.parametrize(
    "weather", [SHORT, pytest.param(LONG, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_a_storm_loses_nothing_keeps_the_limit_and_is_over_in_seconds(
    tmp_path: Path, weather: Weather
) -> None:
    ridden = ride(weather, tmp_path)
    _nothing_is_lost(ridden)
    storm = (ridden.storm_at, ridden.accepted[-1] + 1.0)
    refused, accepted = ridden.refused_in(*storm), ridden.accepted_in(*storm)
    assert refused / (refused + accepted) < 0.08, f"{refused} of {refused + accepted} were refused"
    burst = weather.rate * FACTOR
    assert ridden.over_limit() <= 2 * burst, (
        "more was sent than the limit gives, with all that it lets through at once"
    )
    assert ridden.kept() > 0.8, "the little that was allowed was used"
    assert ridden.recovered_s() < 10.0
    later = ridden.fair_at + ridden.recovered_s()
    if later + 4.0 < ridden.accepted[-1]:
        assert ridden.accepted_in(later, later + 4.0) > 0.9 * 4.0 * weather.rate, "and it stays so"


def _nothing_is_lost(ridden: Ridden) -> None:
    assert ridden.ran.exit is Exit.DONE
    assert ridden.ran.live.done == len(ridden.accepted) == ridden.weather.trials
    assert ridden.others == []
    with Archive(ridden.ran.folder) as archive:
        assert all(trial.status == "done" for trial in archive.trials())
        total = archive.total()
    assert (total.doubts, total.unknown_costs) == (0, 0)
