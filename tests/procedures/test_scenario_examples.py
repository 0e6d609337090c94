"""The scenarios under examples/: each can be planned and rehearsed, and does what it is there for."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
import yaml

import trialrun as tr
from trialrun.store.archive import Archive

SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"
ALL = ("test-regulation-negotiation", "river-basin", "port-city")


def rehearsed(home: Path, name: str, **more: object) -> tr.Results:
    shutil.copytree(SCENARIOS / name, home / name)
    study = {"study": "s", "procedure": "scenario", "settings": {"world": name}, "seed": 3, **more}
    (home / "study.yaml").write_text(yaml.safe_dump(study))
    return tr.run(home / "study.yaml", lane="rehearsal", progress=False)


@pytest.mark.parametrize("name", ALL)
def test_every_scenario_runs_to_its_end(tmp_path: Path, name: str) -> None:
    results = rehearsed(tmp_path, name)
    trial = results.trials(frame="polars").to_dicts()[0]
    assert results.exit == tr.Exit.DONE
    assert trial["end_reason"] in ("max_turns", "success", "failure")
    assert results.verify().differences == ()


def test_the_negotiation_has_talks_coalitions_events_and_metrics_of_all_kinds(tmp_path: Path) -> None:
    results = rehearsed(tmp_path, "river-basin", replicates=4)
    messages = results.messages(frame="polars").to_dicts()
    heard_by = Counter(len(row["audience"].split(", ")) if row["audience"] else 0 for row in messages)
    assert set(heard_by) >= {0, 2, 3}
    purposes = set(results.calls(frame="polars")["purpose"])
    assert purposes >= {"contact", "reply", "proposal", "answer", "coalition message", "statement", "summary"}
    with Archive(results.folder) as archive:
        events = {str(row.values["event"]).split(":")[0] for row in archive.states() if "event" in row.values}
    assert events >= {"trend", "random", "scheduled"}
    assert any(row["party"] == "world" for row in messages)
    measured = {
        row["name"] for row in results.measures(frame="polars").to_dicts() if row["value"] or row["label"]
    }
    assert measured >= {"reservoir", "trust", "dispute", "fairness", "mood", "issues"}
    assert "hill-farmers.conflict_words" in set(results.measures(frame="polars")["name"])


def test_prompts_of_the_long_run_do_not_grow_with_its_turns(tmp_path: Path) -> None:
    results = rehearsed(tmp_path, "port-city", seed=4)
    calls = results.calls(frame="polars").to_dicts()
    size = {
        row["turn"]: row["tokens_in"]
        for row in calls
        if row["party"] == "mayor" and row["purpose"] == "actor decision"
    }
    assert max(size) >= 10, "it did not end early"
    assert size[max(size)] < 1.5 * size[6]
