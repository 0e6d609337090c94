"""Questions to people: listed, answered by number, and taken by a run that waits."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.conftest import Trialrun, process
from trialrun.app.answers import Question, open_questions
from trialrun.app.exits import Exit
from trialrun.core.errors import StoreError

ASKS = (
    'first = await lab.ask_human(f"How is {trial.replicate}?")\n'
    'second = await lab.ask_human("Sure?", options=["yes", "no"])\n'
    'return {"first": first, "second": second}'
)
LIVE = "parties: {}\n"


def parked(with_procedure: Callable[..., str], tmp_path: Path) -> str:
    """A live study that needs no model: every trial waits for a person."""
    study = with_procedure(ASKS)
    text = (tmp_path / study).read_text()
    lines = [line for line in text.splitlines() if not line.startswith(("parties", "prices"))]
    (tmp_path / study).write_text("\n".join(lines) + "\n")
    return study


def test_a_study_waits_for_people_and_goes_on_with_their_answers(
    trialrun: Trialrun, with_procedure: Callable[..., str], tmp_path: Path
):
    study = parked(with_procedure, tmp_path)
    said = trialrun("run", study)
    assert said.exit == Exit.PARKED
    assert "waiting for answers" in said.out
    assert "trialrun answer own.yaml" in said.out
    questions = trialrun("answer", study, "--json").json["questions"]
    assert sorted(each["question"] for each in questions) == ["How is 1?", "How is 2?"]
    assert [each["number"] for each in questions] == [1, 2]
    assert trialrun("answer", study, "1", "well").exit == 0
    (left,) = trialrun("answer", study, "--json").json["questions"]
    assert left["number"] == 2, "a question keeps its number when another is answered"
    assert trialrun("answer", study, "1", "well").exit == Exit.USAGE
    trialrun("answer", study, "2", "fine", "--by", "Kim")
    assert trialrun("run", study).exit == Exit.PARKED
    for question in trialrun("answer", study, "--json").json["questions"]:
        said = trialrun("answer", study, str(question["number"]), "perhaps")
        assert said.exit == Exit.USAGE
        assert "yes, no" in said.err
        assert trialrun("answer", study, str(question["number"]), "yes").exit == 0
    assert trialrun("run", study).exit == 0
    assert "no question is open" in trialrun("answer", study, "--list").out


def asked_so_far(folder: Path) -> list[Question]:
    """The open questions; none before the run has begun to write."""
    if not (folder / "study.db").exists():
        return []
    try:
        return open_questions(folder)
    except StoreError:
        return []


def test_a_run_that_waits_takes_an_answer_at_once(
    trialrun: Trialrun, with_procedure: Callable[..., str], tmp_path: Path
):
    study = parked(with_procedure, tmp_path)
    folder = tmp_path / "results/own"
    with process("run", study, "--wait", cwd=tmp_path) as started:
        for _ in range(4):
            until = time.monotonic() + 30
            while not (questions := asked_so_far(folder)):
                assert time.monotonic() < until
                time.sleep(0.05)
            question = questions[0]
            said = trialrun("answer", study, str(question.number), "yes")
            assert said.exit == 0
            assert "the run that is going on took it" in said.out
        out, _ = started.communicate(timeout=30)
    assert started.returncode == 0
    assert "own: done" in out
