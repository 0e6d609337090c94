"""PatientHub's summary and tables: the documented columns first, whatever the sessions come from."""

import json
import statistics
from pathlib import Path

import pytest

from tests.compat.hub import SMALL, Script, files, read, rows, script
from trialrun.compat.patienthub.batch import (
    BatchConfig,
    aggregate_results,
    run_batch,
)
from trialrun.compat.patienthub.export import load_sessions, sessions_to_dataframe
from trialrun.core.errors import UsageError
from trialrun.measures.text import word_count

__all__ = ["script"]


def test_rows_of_every_kind_become_a_summary(tmp_path: Path):
    error = {
        "status": "error",
        "client": "patientPsi",
        "therapist": "CBT",
        "run_id": 3,
        "error": "API rate limit exceeded",
    }
    turns = [18, 20, 17]
    good = [
        {"status": "success", "client": "patientPsi", "therapist": "CBT", "run_id": run, "num_turns": each}
        for run, each in enumerate(turns)
    ]
    alone = {"status": "success", "client": "eeyore", "therapist": "MI", "run_id": 0, "num_turns": 7}
    left = {"status": "unfinished", "client": "eeyore", "therapist": "MI", "run_id": 1}
    summary = aggregate_results([*good, error, alone, left], tmp_path / "new")
    assert read(tmp_path / "new/batch_summary.json")["failed"] == 1
    assert (summary["total_runs"], summary["successful"], summary["failed"], summary["unfinished"]) == (
        6,
        4,
        1,
        1,
    )
    pair = summary["by_combination"]["patientPsi_CBT"]
    assert (pair["num_runs"], pair["avg_turns"]) == (4, pytest.approx(statistics.mean(turns)))
    assert pair["std_turns"] == pytest.approx(statistics.stdev(turns))
    assert summary["by_combination"]["eeyore_MI"]["std_turns"] is None
    assert summary["failures"] == [error]


def test_a_rehearsed_summary_is_never_in_the_folder_of_real_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    config = BatchConfig(num_runs=2, max_turns=1, seed=1, output_dir="out")
    real = {"status": "success", "client": "eeyore", "therapist": "MI", "run_id": 0, "num_turns": 7}
    aggregate_results([real], "out")
    before = files(tmp_path / "out")
    results = run_batch(config, lane="rehearsal", progress=False)
    summary = aggregate_results(results, config.output_dir)
    assert files(tmp_path / "out") == before
    written = tmp_path / "out.rehearsal"
    assert read(written / "batch_summary.json")["total_runs"] == summary["total_runs"] == 2
    assert aggregate_results(results, written) == summary
    assert not (tmp_path / "out.rehearsal.rehearsal").exists()


def test_the_tables_have_the_documented_columns_first(script: Script, tmp_path: Path):
    script("batch_simulate", *SMALL, "--num_runs", "11", "--output_dir", "out")
    folder = "out.rehearsal"
    said = script("export", "--input_dir", folder, "--output", "tables/results.csv", "--stats")
    assert said.exit == 0, said.err
    assert "patientPsi_CBT" in said.out
    sessions = rows(tmp_path / "tables/results.csv")
    assert list(sessions[0])[:6] == [
        "source_file",
        "patient_name",
        "num_turns",
        "total_messages",
        "therapist_words",
        "client_words",
    ]
    assert [row["run_id"] for row in sessions] == [str(run) for run in range(11)], "run 2 before run 10"
    assert script("export", "--input_dir", folder, "--output", "m.csv", "--level", "turn").exit == 0
    messages = rows(tmp_path / "m.csv")
    assert list(messages[0])[:5] == ["session_file", "turn_idx", "role", "content", "word_count"]
    first = [row for row in messages if row["session_file"] == sessions[0]["source_file"]]
    assert [row["turn_idx"] for row in first] == [str(number) for number in range(6)]
    assert [row["role"] for row in first] == ["therapist", "client"] * 3
    for role in ("therapist", "client"):
        words = sum(int(row["word_count"]) for row in first if row["role"] == role)
        assert words == int(sessions[0][f"{role}_words"])
    assert all(word_count(row["content"].removeprefix("'")) == int(row["word_count"]) for row in messages)
    assert script("export", "--input_dir", folder, "--output", "s.csv", "--level", "state").exit == 0
    assert {row["name"] for row in rows(tmp_path / "s.csv")} == {"style", "openness"}


def test_sessions_of_another_origin_are_read_too(tmp_path: Path):
    session = {
        "profile": {"name": "Somebody"},
        "messages": [{"role": "therapist", "content": "=1+1"}, {"role": "client", "content": "don't know"}],
        "num_turns": 1,
    }
    (tmp_path / "patientPsi_c0_r0.json").write_text(json.dumps(session))
    (found,) = load_sessions(tmp_path)
    frame = sessions_to_dataframe([found])
    assert frame.iloc[0].to_dict() | {"total_cost": 0} == {
        "patient_name": "Somebody",
        "num_turns": 1,
        "total_messages": 2,
        "therapist_words": 2,
        "client_words": 2,
        "total_cost": 0,
    }
    assert len(sessions_to_dataframe([])) == 0


def test_a_folder_that_is_none_and_a_file_that_is_broken_are_said(script: Script, tmp_path: Path):
    assert script("export", "--input_dir", "nowhere", "--output", "x.csv").exit == 2
    (tmp_path / "empty").mkdir()
    assert script("export", "--input_dir", "empty", "--output", "x.csv").exit == 2
    (tmp_path / "empty/a_b_run0.json").write_text("{")
    with pytest.raises(UsageError, match="no JSON"):
        load_sessions(tmp_path / "empty")
    assert not (tmp_path / "x.csv").exists()
