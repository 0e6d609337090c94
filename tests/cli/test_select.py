"""`trialrun select`, between two studies."""

from pathlib import Path

from tests.cli.conftest import Trialrun
from trialrun.app.exits import Exit


def test_the_command_writes_a_file_that_a_second_study_takes_its_questions_from(
    trialrun: Trialrun, tmp_path: Path
):
    study = """\
study: {name}
procedure: questions
parties:
  subject: {{model: openai/gpt-4.1-mini, max_tokens: 900}}
  judge: {{model: openai/gpt-4.1-mini, temperature: 0}}
factors:
  question: {{from: "{file}"}}
  tactic: {{from: "trialrun:tactics.yaml", where: {{id: [insistence, neutral]}}}}
measures: [first, flipped]
"""
    (tmp_path / "screen.yaml").write_text(
        study.format(name="screen", file="trialrun:questions.yaml"), encoding="utf-8"
    )
    (tmp_path / "deep.yaml").write_text(study.format(name="deep", file="risky.yaml"), encoding="utf-8")
    assert trialrun("rehearse", "screen.yaml", "--quiet").exit == 0
    said = trialrun(
        "select",
        "screen.yaml",
        "--factor",
        "question",
        "--if",
        "flipped > 0",
        "--out",
        "risky.yaml",
        "--json",
    )
    assert said.exit == 0
    assert (tmp_path / "risky.yaml").read_text(encoding="utf-8").startswith("# REHEARSAL")
    many = len(said.json["taken"])
    assert 0 < many < 70
    planned = trialrun("plan", "deep.yaml", "--json")
    assert planned.json["trials"] == 2 * many
    assert (
        trialrun("select", "screen.yaml", "--factor", "question", "--if", "flipped > 0", "--only", "x").exit
        == 2
    )


def test_a_rule_that_can_hold_for_nothing_is_refused(trialrun: Trialrun, small: str):
    trialrun("rehearse", small, "-q")
    for rule, what, fix in (
        ("pleasd > 0.5", "no trial has the measure `pleasd`", "did you mean `pleased`?"),
        ("pleased > 0.5", "`pleased` has labels and no numbers", "`pleased="),
    ):
        said = trialrun("select", small, "--factor", "manner", "--if", rule, "--out", "taken.yaml")
        assert said.exit == Exit.USAGE
        assert what in said.err
        assert fix in said.err
        assert not Path("taken.yaml").exists()
    held = trialrun("select", small, "--factor", "manner", "--if", "pleased=yes >= 0", "--json")
    assert held.json["taken"] == ["warm", "cool"]


def test_a_gate_that_nothing_passes_ends_the_chain_of_stages(trialrun: Trialrun, small: str, tmp_path: Path):
    """`trialrun select ... && trialrun run deep.yaml`: where no level meets the rule there is no second stage."""
    trialrun("rehearse", small, "-q")
    rule = ("select", small, "--factor", "manner", "--if")
    said = trialrun(*rule, "guest.words < 0", "--out", "taken.yaml")
    assert said.exit == Exit.SOME_FAILED
    assert "0 of 2 levels of `manner` taken" in said.out
    assert "no second stage" in said.out
    assert trialrun(*rule, "guest.words > 0", "--out", "taken.yaml").exit == Exit.DONE
