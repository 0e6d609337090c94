"""`trialrun batch process`: result files become one analysis."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.app.exits import Exit
from trialrun.cli import batches, options
from trialrun.cli.screen import Shown, plain_data

if TYPE_CHECKING:
    from trialrun.cli.blocks import Block
    from trialrun.compat.batch_files.processing import Analysis
    from trialrun.stats.intervals import Estimate


@click.command("process", short_help="Judge the answers of result files, and analyse them.")
@batches.provider
@batches.inputs("A file that `download` wrote; all of the tracking file unless given. May be repeated.")
@click.option(
    "--output", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The analysis, as JSON."
)
@click.option(
    "--requests",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What was asked, where the tracking file does not know it.",
)
@click.option(
    "--questions", default="", metavar="FILE", help="What is known of the questions: expected answers."
)
@click.option(
    "--judge",
    default="",
    envvar="TRIALRUN_BATCH_JUDGE",
    metavar="MODEL",
    help="Who says which side an answer takes.",
)
@click.option(
    "--lane",
    type=click.Choice(["live", "batch", "rehearsal"]),
    default="live",
    help="How the judge is asked.",
)
@click.option("--budget", metavar="USD", help="What the judge may cost.")
@batches.tracking
@options.output
def command(
    *,
    provider: str,
    named: tuple[Path, ...],
    files: tuple[Path, ...],
    output: Path,
    requests: tuple[Path, ...],
    questions: str,
    judge: str,
    lane: options.Lane,
    budget: str | None,
    tracking: Path,
) -> Shown:
    """Put answers and questions together again by their ids, have a judge say which side each answer takes, and count.

    Without a judge no answer has a stance: texts, tokens and money are there, and every question is `no_data`.
    """
    from trialrun.app.files import write_whole
    from trialrun.compat.batch_files.processing import Wanted, process
    from trialrun.compat.batch_files.stances import Judging
    from trialrun.compat.batch_files.tracking import Ledger
    from trialrun.core.errors import UsageError
    from trialrun.providers.prices import GenaiPrices

    ledger = Ledger(tracking)
    paths = [*named, *files] or [Path(b.results) for b in ledger.read().batches if b.results]
    if not paths:
        raise UsageError(
            "there are no results yet", fix="bring them with `trialrun batch download`, or say `--input`"
        )
    judging = (
        Judging(
            model=judge,
            lane=lane,
            budget_usd=batches.amount(budget),
            folder=output.with_name(f"{output.stem}.judge"),
        )
        if judge
        else None
    )
    wanted = Wanted(inputs=paths, service=provider, requests=requests, questions=questions, judging=judging)
    found = batches.reading(
        lambda routes: process(wanted, ledger=ledger, routes=routes, prices=GenaiPrices())
    )
    text = json.dumps(plain_data(found.document), indent=2, ensure_ascii=False) + "\n"
    write_whole(output, [text.encode("utf-8", "surrogatepass")])
    return Shown(
        data={**found.document, "output": str(output)},
        blocks=lambda: _blocks(found, output, judge),
        exit=_exit(found, has_judge=bool(judge)),
        error=found.stances.stopped_by,
    )


def _exit(found: "Analysis", *, has_judge: bool) -> Exit:
    if found.stances.exit:
        return found.stances.exit
    return Exit.SOME_FAILED if found.unanswered or found.unjudged or not has_judge else Exit.DONE


def _blocks(found: "Analysis", output: Path, judge: str) -> "list[Block]":
    from trialrun.cli.amounts import usd
    from trialrun.cli.blocks import GAP, Column, Line, Table

    heads = ("model", "tactic", "questions", "flipped", "resisted", "flips by level", "USD")
    rows = [
        (
            group.levels["model"],
            group.levels["tactic"],
            str(group.trials),
            _rate(group.flipped),
            _rate(group.resisted),
            " ".join(f"{level}:{count}" for level, count in group.flip_levels.items()) or "-",
            usd(None if group.unknown_costs else group.cost_usd),
        )
        for group in found.groups
    ]
    document = found.document
    counts = ", ".join(
        f"{name} {document[name]}" for name in ("no_flip", "soft_flip", "explicit_flip", "no_data")
    )
    blocks: list[Block] = []
    if found.stances.is_rehearsal:
        blocks.append(Line("REHEARSAL: which side an answer takes is made up", "loud"))
    blocks += [
        Table([Column(head) for head in heads], rows),
        GAP,
        Line(f"{document['total_questions']} questions: {counts}"),
    ]
    if found.unanswered:
        blocks.append(Line(f"{len(found.unanswered)} requests have no answer; `unanswered` says why", "bad"))
    if not judge:
        blocks.append(Line("no answer was judged; `--judge openai/gpt-4.1` has them judged", "bad"))
    return [*blocks, Line(f"written to {output}")]


def _rate(found: "Estimate") -> str:
    if found.value is None or found.low is None or found.high is None:
        return "-"
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}] of {found.n}"
