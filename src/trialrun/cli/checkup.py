"""What `doctor` finds and does, rendered."""

import asyncio
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from trialrun.app import doctoring
from trialrun.app.doctoring import Check, Doubt
from trialrun.app.environment import read_env
from trialrun.app.exits import Exit
from trialrun.app.studies import Lane
from trialrun.cli import amounts
from trialrun.cli.blocks import GAP, Block, Column, Line, Style, Table
from trialrun.cli.defuse import one_line
from trialrun.cli.screen import Shown

_MARKS = {"fine": "ok", "note": "note", "wrong": "WRONG"}
_STYLES: dict[str, Style] = {"fine": "", "note": "dim", "wrong": "bad"}
_MOST = 50


def of_machine() -> Shown:
    """The installation and the keys."""
    return _shown(list(doctoring.checks_of_machine(read_env(None))), [])


def of_study(study: Path, folder: Path, lane: Lane | None) -> Shown:
    """The same, the models of a study, and its store."""
    checks = list(doctoring.checks_of_machine(read_env(study)))
    checks += doctoring.checks_of_plan(study, lane)
    checks += doctoring.checks_of_study(folder)
    return _shown(checks, doctoring.doubts_of(folder) if not _is_damaged(checks) else [], folder)


def confirmed(folder: Path, call: str, cost: str) -> Shown:
    """A call in doubt is settled, or all of them at what they cost together."""
    doubts = asyncio.run(doctoring.confirm(folder, call, cost))
    left = len(doctoring.doubts_of(folder))
    what = f"{doubts[0].call} is" if len(doubts) == 1 else f"{len(doubts):,} calls are"
    text = f"{what} settled at {cost} USD; {amounts.plural(left, 'call')} still in doubt"
    return Shown(
        data={"call": call, "calls": [doubt.call for doubt in doubts], "cost_usd": cost, "left": left},
        blocks=lambda: [Line(text, "good")],
    )


def quarantined(folder: Path, seq: int) -> Shown:
    """A damaged fact is out of the way."""
    trial = doctoring.quarantine(folder, seq)
    fate = f"trial {trial} begins anew with the next run" if trial else "it belonged to the study itself"
    text = f"fact {seq} is set aside; {fate}"
    return Shown(data={"seq": seq, "trial": trial}, blocks=lambda: [Line(text, "good")])


def rebuilt(folder: Path) -> Shown:
    """The table of trials follows from the facts again."""
    found = doctoring.rebuild(folder)

    def blocks() -> list[Block]:
        if not found:
            return [Line("rebuilt; everything was as the facts say", "good")]
        rows = [
            (each.trial, each.column, one_line(str(each.stored), 60), one_line(str(each.folded), 60))
            for each in found
        ]
        heads = [Column("trial"), Column("column"), Column("was", is_prose=True), Column("is", is_prose=True)]
        more = [Line(f"… and {len(rows) - _MOST} more", "dim")] if len(rows) > _MOST else []
        return [
            Line(f"rebuilt; {amounts.plural(len(found), 'value')} corrected"),
            Table(heads, rows[:_MOST]),
            *more,
        ]

    return Shown(data={"folder": str(folder), "corrected": [asdict(each) for each in found]}, blocks=blocks)


def _is_damaged(checks: list[Check]) -> bool:
    return any(check.health == "wrong" for check in checks)


def _shown(checks: list[Check], doubts: list[Doubt], folder: Path | None = None) -> Shown:
    def blocks() -> list[Block]:
        found: list[Block] = []
        for check in checks:
            found.append(
                Line(
                    f"{_MARKS[check.health]:<5}  {check.name}: {one_line(check.found, 400)}",
                    _STYLES[check.health],
                )
            )
            if check.fix and check.health != "fine":
                found.append(Line(f"       fix: {check.fix}", "dim"))
        if doubts:
            heads = [
                Column("call in doubt"),
                Column("model"),
                Column("at most", "right"),
                Column("when"),
                Column("why", is_prose=True),
            ]
            found += [GAP, Table(heads, [_row(doubt) for doubt in doubts[:_MOST]])]
        if len(doubts) > _MOST:
            found.append(Line(f"… and {len(doubts) - _MOST} more", "dim"))
        if doubts:
            hint = "`--confirm CALL COST` settles one at what it did cost, `--confirm all TOTAL` all of them"
            found.append(Line(hint, "dim"))
        return found

    data = {
        "folder": str(folder) if folder else None,
        "checks": [asdict(check) for check in checks],
        "in_doubt": [asdict(doubt) for doubt in doubts],
    }
    return Shown(data=data, blocks=blocks, exit=Exit.STORE if _is_damaged(checks) else Exit.DONE)


def _row(doubt: Doubt) -> tuple[str, ...]:
    when = datetime.fromtimestamp(doubt.held_at, UTC)
    ceiling = amounts.usd(doubt.ceiling_usd, round_up=True)
    return (
        doubt.call,
        one_line(doubt.model, 40),
        ceiling,
        f"{when:%Y-%m-%d %H:%M:%S} UTC",
        one_line(doubt.reason, 60),
    )
