"""The table of conditions: rendered for people, and as data for `--json`."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from trialrun.app.advice import Step, next_steps
from trialrun.app.exits import Exit
from trialrun.app.findings.tables import ConditionRow, Money, StudyTable, table_of
from trialrun.app.judging.standing import PassRow
from trialrun.cli import amounts
from trialrun.cli.blocks import GAP, Block, Column, Line, Pairs, Table
from trialrun.cli.defuse import one_line
from trialrun.cli.screen import Shown
from trialrun.core.errors import TrialrunError
from trialrun.stats.summary import Label, Summary

_MOST_ROWS = 60
_NONE = "–"
_STANDING = {
    Exit.DONE: "done",
    Exit.SOME_FAILED: "ended, some trials failed",
    Exit.BUDGET: "stopped by the budget",
    Exit.PARKED: "waiting for answers",
    Exit.INTERRUPTED: "not finished",
}


def shown(
    folder: Path,
    named: str,
    *,
    exit_: Exit | None = None,
    error: TrialrunError | None = None,
    steps: Sequence[Step] | None = None,
    by: Sequence[str] = (),
) -> Shown:
    """The table of a study, with the exit code of what was done or else of where it stands."""
    table = table_of(folder, by)
    advised = next_steps(table, named) if steps is None else steps
    data = data_of(table, advised)
    if error is not None:
        data["stopped_by"] = {"what": error.what, "where": error.where, "fix": error.fix}
    code = table.exit if exit_ is None else exit_
    return Shown(data=data, blocks=lambda: blocks_of(table, advised), exit=code, error=error)


def blocks_of(table: StudyTable, steps: Sequence[Step]) -> list[Block]:
    """Everything that is to be said about a study at this moment, and what may follow."""
    blocks: list[Block] = []
    if table.is_rehearsal:
        blocks += [Line("REHEARSAL: made up by a built-in model, no results of a real one", "loud"), GAP]
    title = f"{table.study}: {_standing(table)}"
    blocks.append(Line(title, "title"))
    if table.question:
        blocks.append(Line(one_line(table.question, 400), "dim"))
    blocks += [GAP, _conditions(table), GAP]
    if more := max(0, table.whole - min(len(table.rows), _MOST_ROWS)):
        rest = amounts.plural(more, "row" if table.by else "condition")
        pool = "" if table.by else "`status --by FACTOR,FACTOR` pools them, "
        blocks += [Line(f"… and {rest} more; {pool}`trialrun export` has all", "dim"), GAP]
    blocks.append(Pairs(_facts(table)))
    blocks += _failures(table)
    if table.notice:
        blocks += [GAP, Line(one_line(table.notice, 600), "bad")]
    blocks += _steps(steps)
    return blocks


def data_of(table: StudyTable, steps: Sequence[Step]) -> dict[str, object]:
    """The same for programs. Money is text, what is missing is null."""
    return {
        "study": table.study,
        "question": table.question,
        "notice": table.notice,
        "lane": table.lane,
        "rehearsal": table.is_rehearsal,
        "folder": str(table.folder),
        "standing": _standing(table),
        "trials": {
            "planned": table.planned,
            "done": table.done,
            "failed": table.failed,
            "waiting": table.parked,
            "waiting_for_batches": table.in_batches,
            "stopped_by_budget": table.stopped_by_budget,
            "begun": table.begun,
            "forks": sum(table.forks.values()),
            "forks_by_status": dict(table.forks),
            "outside_plan": table.outside,
            "under_earlier_plan": table.deviating,
        },
        "money": {**asdict(table.money), "left_usd": table.money.left_usd},
        "calls": table.calls,
        "replicates": table.replicates,
        "condition_count": table.conditions,
        "measures": list(table.measures),
        "by": list(table.by),
        "pooled_over": list(table.pooled),
        "clusters": table.clusters or None,
        "conditions": [asdict(row) for row in table.rows],
        "failures": [{"reason": reason, "trials": count} for reason, count in table.failures],
        "judging": [asdict(each) for each in table.passes],
        "worked_on_by": table.worked_on_by
        and {"pid": table.worked_on_by.pid, "host": table.worked_on_by.host},
        "next": [{"command": command, "why": why} for command, why in steps],
    }


def _standing(table: StudyTable) -> str:
    if table.worked_on_by is not None:
        return f"running, process {table.worked_on_by.pid} on {table.worked_on_by.host}"
    if table.exit is Exit.PARKED and table.in_batches:
        return "waiting for batches and for answers" if table.for_people else "waiting for batches"
    return _STANDING.get(table.exit, "not finished")


def _conditions(table: StudyTable) -> Table:
    """One column per factor: levels are read down a column, not out of a title."""
    factors = list(table.rows[0].levels) if table.rows else []
    has_failed = any(row.failed for row in table.rows)
    columns = [Column(name) for name in factors] or [Column("condition")]
    columns.append(Column("done", "right"))
    if has_failed:
        columns.append(Column("failed", "right"))
    columns += [Column(name, "right") for name in table.measures]
    columns.append(Column("USD", "right"))
    shown_rows = table.rows[:_MOST_ROWS]
    spent = amounts.usd_column([row.spent_usd for row in shown_rows])
    rows = [
        _row(row, factors, table.measures, spent=usd, has_failed=has_failed)
        for row, usd in zip(shown_rows, spent, strict=True)
    ]
    return Table(columns, rows)


def _row(
    row: ConditionRow, factors: Sequence[str], measures: Sequence[str], *, spent: str, has_failed: bool
) -> list[str]:
    cells = [one_line(row.levels[name], 40) for name in factors] or ["all trials"]
    cells.append(f"{row.done:,} of {row.planned:,}")
    if has_failed:
        cells.append(f"{row.failed:,}" if row.failed else "")
    cells += [measured(row.measures[name]) for name in measures]
    cells.append(spent + (" + unknown" if row.unknown_costs else ""))
    return cells


def measured(summary: Summary) -> str:
    """What one measure says in one condition, with its interval; how many values are missing, if any are."""
    parts: list[str] = []
    if summary.rate is not None:
        parts.append(amounts.share(summary.rate.value, summary.rate.low, summary.rate.high))
    if summary.numbers is not None:
        mean = summary.numbers.mean
        parts.append(amounts.interval(mean.value, mean.low, mean.high))
    parts += _labels(summary.labels)
    if summary.others:
        parts.append(f"{summary.others} without a number")
    if not summary.n:
        return _NONE
    if summary.missing:
        parts.append(f"{summary.missing} missing")
    return "\n".join(parts)


def _labels(labels: Sequence[Label]) -> list[str]:
    """The share of each label; of two, the first says it all."""
    shown = labels[:1] if len(labels) == 2 else labels[:6]
    more = [f"{len(labels) - 6} more labels"] if len(labels) > 6 else []
    return [
        f"{one_line(each.label, 24)} {amounts.share(each.share.value, each.share.low, each.share.high)}"
        for each in shown
    ] + more


def _facts(table: StudyTable) -> list[tuple[str, str]]:
    paid = " (rehearsed: nothing was paid)" if table.is_rehearsal else ""
    is_under_way = table.worked_on_by is not None or bool(table.in_batches)
    facts = [("trials", _trials(table)), ("money", money(table.money, is_under_way=is_under_way) + paid)]
    facts += [("judged", judged(each)) for each in table.passes]
    facts.append(("results", str(table.folder)))
    if table.measures:
        facts.append(
            ("reading", "mean or share of the finished trials, with its 95 % interval" + _pooled(table))
        )
    return facts


def _pooled(table: StudyTable) -> str:
    """`; pooled over question and tactic: the trials of one question count as a cluster`."""
    if not table.clusters:
        return ""
    *others, last = [one_line(name, 40) for name in table.pooled]
    over = f"{', '.join(others)} and {last}" if others else last
    return f"; pooled over {over}: the trials of one {one_line(table.clusters, 40)} are alike, and count as a cluster"


def judged(row: PassRow) -> str:
    """`alliance-abc2def: 80 of 80 by openai/gpt-5, 0.12 USD`."""
    failed = f", {row.failed:,} failed" if row.failed else ""
    of = " labelled" if row.is_calibration else ""
    by = amounts.listed(row.raters, 3)
    if row.unanswered:
        failed += f", {amounts.plural(row.unanswered, 'rating')} missing for want of a usable answer"
    return f"{row.id}: {row.done:,} of {row.planned:,}{of} by {by}{failed}, {amounts.usd(row.spent_usd)} USD"


def _trials(table: StudyTable) -> str:
    parts = [f"{table.done:,} of {amounts.plural(table.planned, 'trial')} done"]
    in_batches = min(table.parked, table.in_batches)  # forks and what is outside the plan are said below
    for number, what in (
        (table.failed, "failed"),
        (in_batches, "waiting for a batch"),
        (table.parked - in_batches, "waiting for an answer"),
        (table.stopped_by_budget, "stopped by the budget"),
        (table.begun, "begun and not ended"),
    ):
        if number:
            parts.append(f"{number:,} {what}")
    if table.deviating:
        parts.append(f"{table.deviating:,} of the done ones under an earlier plan")
    if table.forks:
        parts.append(_forks(table))
    beyond = sum(max(0, row.done - row.planned) for row in table.rows)
    if beyond:
        parts.append(f"and {beyond:,} beyond the planned replicates, which count in the table")
    if table.outside:
        parts.append(f"and {table.outside:,} of conditions that are no longer planned")
    return ", ".join(parts)


def _forks(table: StudyTable) -> str:
    """`and 2 forks, outside the table (1 not run yet)`."""
    states = [
        f"{number:,} {what}"
        for number, what in (
            (table.forks_unfinished - table.forks_with("parked"), "not run to the end yet"),
            (table.forks_with("parked"), "waiting for an answer"),
            (table.forks_with("failed", "timed_out", "cancelled"), "failed"),
        )
        if number
    ]
    of_these = f" ({', '.join(states)})" if states else ""
    return f"and {amounts.plural(sum(table.forks.values()), 'fork')}, outside the table{of_these}"


def money(account: Money, *, is_under_way: bool = False) -> str:
    """`0.31 USD spent, 0.02 in doubt for 1 unconfirmed call, 4.67 left of 5.00`."""
    parts = [f"{amounts.usd(account.spent_usd)} USD spent"]
    if account.held_usd:
        held = amounts.usd(account.held_usd, round_up=True)
        if account.doubts:
            parts.append(f"{held} in doubt for {amounts.plural(account.doubts, 'unconfirmed call')}")
        else:
            # Nobody is there any more who could settle what was in flight at a kill.
            parts.append(f"{held} held" if is_under_way else f"{held} in doubt")
    if account.unknown_costs:
        parts.append(f"and an unknown cost of {amounts.plural(account.unknown_costs, 'call')}")
    if account.left_usd is not None:
        parts.append(f"{amounts.usd(account.left_usd)} left of {amounts.usd(account.budget_usd)}")
    return ", ".join(parts)


def _failures(table: StudyTable) -> list[Block]:
    if not table.failures:
        return []
    rows = [(f"{count:,} ×", one_line(reason, 160)) for reason, count in table.failures]
    return [GAP, Line("why trials failed", "title"), Pairs(rows)]


def _steps(steps: Sequence[Step]) -> list[Block]:
    if not steps:
        return []
    return [GAP, Line("next", "title"), Pairs(steps, are_commands=True)]
