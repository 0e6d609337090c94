"""Judging: what a pass would take, and what it says, rendered for people and as data for `--json`."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict

from trialrun.app.findings.judgements import Agreement, JudgedCondition, Judgement
from trialrun.app.findings.tables import StudyTable
from trialrun.app.judging.previewing import JudgingPreview
from trialrun.cli import amounts
from trialrun.cli.blocks import GAP, Block, Column, Line, Pairs, Table
from trialrun.cli.conditions import judged, measured, money
from trialrun.cli.defuse import one_line

_MOST_ROWS = 60
_WORDS = {
    "abstained": "abstained",
    "unreadable": "could not be read",
    "refused": "refused",
    "left_out": "left out",
    "no_truth": "without a truth to compare with",
}


def headline(found: JudgingPreview) -> str:
    """`alliance-abc2def: 80 trials x 2 raters x 3 repeats = 480 ratings of trials, about 480 calls`."""
    plan = found.plan
    one = plan.judging
    what = "labelled unit" if one.labelled else "trial"
    parts = [amounts.plural(len(plan.sources), what), amounts.plural(len(one.models), "rater")]
    if one.repeats > 1:
        parts.append(amounts.plural(one.repeats, "repeat"))
    left = "" if found.left == found.trials else f", {found.left:,} of them left"
    calls = found.all_left.calls
    about = f", about {amounts.span(calls.low, calls.high)} calls" if found.left else ""
    return f"{one.id}: {' x '.join(parts)} = {found.trials:,} to rate{left}{about}"


def expected(found: JudgingPreview) -> str:
    """Money and time as ranges, and what is left of the budget."""
    whole, plan = found.all_left, found.plan
    if not found.left:
        return "everything is rated; nothing is left to pay"
    cost = "at an unknown cost"
    if whole.cost_usd is not None:
        low, high = amounts.usd(whole.cost_usd.low), amounts.usd(whole.cost_usd.high)
        cost = (low if low == high else f"{low} to {high}") + " USD"
    if whole.ceiling_usd is not None:
        cost += f", at most about {amounts.usd(whole.ceiling_usd, round_up=True)}"
    slow, fast = amounts.duration(found.duration_s.high), amounts.duration(found.duration_s.low)
    time = "no waiting" if plan.lane == "rehearsal" else (slow if slow == fast else f"{fast} to {slow}")
    return f"{plan.lane}: {cost}; {time}"


def preview_blocks(
    previews: Sequence[JudgingPreview], table: StudyTable, *, with_prompts: bool
) -> list[Block]:
    """What the passes would take."""
    blocks: list[Block] = []
    for found in previews:
        lane, _, rest = expected(found).partition(": ")
        blocks.append(Line(headline(found), "title"))
        rows = [(lane, rest)] if rest else [("", lane)]
        rows.append(("raters", ", ".join(found.plan.judging.models)))
        blocks += [Pairs([*rows, ("budget", money(table.money))])]
        blocks += [Line(f"note: {note}", "dim") for note in found.notes]
        if with_prompts:
            blocks += _prompts(found)
        blocks.append(GAP)
    return blocks[:-1]


def preview_data(found: JudgingPreview, *, with_prompts: bool) -> dict[str, object]:
    """The same for programs. Money is text."""
    plan, whole = found.plan, found.all_left
    data: dict[str, object] = {
        "judging": plan.judging.id,
        "rubric": plan.judging.rubric.name,
        "raters": list(plan.judging.models),
        "repeats": plan.judging.repeats,
        "sources": len(plan.sources),
        "trials": found.trials,
        "left": found.left,
        "calls": asdict(whole.calls),
        "cost_usd": whole.cost_usd
        and {"low": f"{whole.cost_usd.low:.6f}", "high": f"{whole.cost_usd.high:.6f}"},
        "ceiling_usd": None if whole.ceiling_usd is None else f"{whole.ceiling_usd:.6f}",
        "duration_s": asdict(found.duration_s),
        "notes": list(found.notes),
    }
    if with_prompts:
        data["prompts"] = [
            {
                "model": prompt.model,
                "messages": [{"role": message.role, "text": message.text} for message in prompt.messages],
            }
            for prompt in found.prompts
        ]
    return data


def _prompts(found: JudgingPreview) -> list[Block]:
    blocks: list[Block] = [GAP, Line("what a rater is asked first", "title")]
    for prompt in found.prompts[:1]:
        for message in prompt.messages:
            blocks += [Line(message.role, "dim"), Line(message.text, indent=2)]
    return blocks


# --- results ---------------------------------------------------------------------------------------------------------


def blocks_of(found: Judgement, table: StudyTable, named: str) -> list[Block]:
    """What a pass says, by condition."""
    blocks: list[Block] = []
    if table.is_rehearsal:
        blocks += [Line("REHEARSAL: made up by a built-in model, no results of a real one", "loud"), GAP]
    blocks.append(Line(f"{table.study}: judged by {found.row.rubric}", "title"))
    if not found.row.is_calibration:
        blocks += [GAP, _conditions(found)]
    paid = " (rehearsed: nothing was paid)" if table.is_rehearsal else ""
    blocks += [
        GAP,
        Pairs(
            [
                ("pass", judged(found.row)),
                ("ratings", _ratings(found)),
                ("money", money(table.money) + paid),
                ("results", str(table.folder)),
                ("reading", "mean or share of the rated trials, with its 95 % interval"),
            ]
        ),
    ]
    if found.unanswered:
        blocks += [GAP, Line("why ratings are missing", "title"), Pairs(_reasons(found))]
    if found.agreements:
        blocks += [GAP, Line("agreement", "title"), _agreements(found.agreements)]
    if table.notice:
        blocks += [GAP, Line(one_line(table.notice, 600), "bad")]
    study = shlex.quote(named)
    steps = [(f"trialrun export {study} --table ratings", "every rating with its explanation")]
    if unanswered := found.row.unanswered:
        again = f"ask again for {amounts.plural(unanswered, 'rating')} without a usable answer; that is paid"
        steps.insert(0, (f"trialrun judge {study} --retry-failed", again))
    if found.row.done < found.row.planned:
        steps.insert(0, (f"trialrun judge {study}", "go on where it stopped; nothing is paid twice"))
    return [*blocks, GAP, Line("next", "title"), Pairs(steps, are_commands=True)]


def data_of(found: Judgement) -> dict[str, object]:
    """The same for programs."""
    return {
        "pass": asdict(found.row),
        "items": list(found.items),
        "ratings": found.ratings,
        "missing": dict(found.missing),
        "unanswered": [{"reason": reason, "ratings": count} for reason, count in found.unanswered],
        "conditions": [asdict(row) for row in found.conditions],
        "agreement": [asdict(row) for row in found.agreements],
    }


def _conditions(found: Judgement) -> Table:
    factors = list(found.conditions[0].levels) if found.conditions else []
    columns = [Column(name) for name in factors] or [Column("condition")]
    columns += [Column("rated", "right"), *(Column(name, "right") for name in found.items)]
    return Table(columns, [_row(row, factors, found.items) for row in found.conditions[:_MOST_ROWS]])


def _row(row: JudgedCondition, factors: Sequence[str], items: Sequence[str]) -> list[str]:
    cells = [one_line(row.levels[name], 40) for name in factors] or ["all trials"]
    return [*cells, f"{row.rated:,}", *(measured(row.items[name]) for name in items)]


def _ratings(found: Judgement) -> str:
    parts = [amounts.plural(found.ratings, "rating")]
    parts += [f"{count:,} {_WORDS.get(why, why)}" for why, count in sorted(found.missing.items())]
    return ", ".join(parts)


def _reasons(found: Judgement) -> list[tuple[str, str]]:
    fix = (
        "ask again, as below; if it stays so, give answers more room (`max_tokens` of the rubric), or change its "
        "questions: that is another pass"
    )
    return [*((f"{count:,} ×", one_line(reason, 160)) for reason, count in found.unanswered), ("fix", fix)]


def _agreements(rows: Sequence[Agreement]) -> Table:
    columns = [
        Column("item"),
        Column("between"),
        Column("pairs", "right"),
        Column("same", "right"),
        Column("alpha", "right"),
        Column("mean gap", "right"),
    ]
    return Table(
        columns,
        [
            (
                each.item,
                "raters" if each.between == "raters" else f"repeats of {each.between}",
                f"{each.share.n:,}",
                amounts.share(each.share.value, each.share.low, each.share.high),
                amounts.share(each.alpha.value, each.alpha.low, each.alpha.high),
                "" if each.mean_difference is None else amounts.number(each.mean_difference),
            )
            for each in rows
        ],
    )
