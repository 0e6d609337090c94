"""A budget for a part of a study: that part comes to its end, in blocks, and what is left is spent as well."""

from collections import Counter
from decimal import Decimal
from pathlib import Path

import pytest

import trialrun as tr
from trialrun.app.exits import Exit
from trialrun.store.archive import Archive

TALK = {
    "study": "small-budget",
    "procedure": "conversation",
    "parties": {
        "listener": {
            "model": "openai/gpt-4.1-mini",
            "prompt": "You are {{ tone }}.",
            "values": {"tone": "kind"},
        },
        "person": {"model": "openai/gpt-4.1-mini", "prompt": "You tell of your day."},
    },
    "factors": {"tone": {"parties.listener.values.tone": ["kind", "cold"]}},
    "replicates": 12,
    "settings": {"max_turns": 5},
    "limits": {"open_trials": 24},
    "seed": 3,
}


def spent(folder: Path) -> Decimal:
    with Archive(folder) as archive:
        return archive.total().spent_usd


def done(folder: Path) -> list[str]:
    with Archive(folder) as archive:
        return [state.condition for state in archive.trials() if state.status == "done"]


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_a_budget_for_a_part_of_a_study_finishes_that_part(tmp_path: Path, share: float) -> None:
    whole = tr.run(TALK, lane="rehearsal", folder=tmp_path / "whole", progress=False)
    assert whole.exit is Exit.DONE
    cost = spent(tmp_path / "whole")
    budget = round(cost * Decimal(str(share)), 6)
    cut = tr.run(TALK, lane="rehearsal", folder=tmp_path / "cut", budget_usd=budget, progress=False)
    assert cut.exit is Exit.BUDGET
    found = done(tmp_path / "cut")
    assert len(found) >= 0.75 * share * 24 - 1, "not all of them begun, and none ended"
    assert max(Counter(found).values()) - min(Counter(found).values()) <= 1, "in whole blocks"
    assert Decimal("0.7") * budget < spent(tmp_path / "cut") <= budget, "and it is spent"

    again = tr.run(TALK, lane="rehearsal", folder=tmp_path / "cut", budget_usd=2 * cost, progress=False)
    assert again.exit is Exit.DONE
    assert sorted(done(tmp_path / "cut")) == sorted(done(tmp_path / "whole"))
    assert spent(tmp_path / "cut") == cost


def test_a_run_that_goes_on_knows_what_a_trial_was_expected_to_cost(tmp_path: Path) -> None:
    whole = tr.run(TALK, lane="rehearsal", folder=tmp_path / "whole", progress=False)
    cost = spent(whole.folder)
    folder = tmp_path / "cut"
    for share in ("0.15", "0.15", "0.4"):
        # The same budget a second time: a plan that is known, and nothing to spend.
        cut = tr.run(
            TALK, lane="rehearsal", folder=folder, budget_usd=round(cost * Decimal(share), 6), progress=False
        )
        assert cut.exit is Exit.BUDGET
    assert len(done(folder)) >= 6


def test_a_budget_for_less_than_a_trial_is_still_spent(tmp_path: Path) -> None:
    cut = tr.run(TALK, lane="rehearsal", folder=tmp_path / "cut", budget_usd="0.002", progress=False)
    assert cut.exit is Exit.BUDGET
    assert spent(tmp_path / "cut") > 0
