"""`trialrun batch cost`: what request files may cost, and what batches did cost."""

from decimal import Decimal
from pathlib import Path

import click

from trialrun.cli import batches, options
from trialrun.cli.screen import Shown


@click.command("cost", short_help="What request files may cost, and what batches did cost.")
@batches.provider
@batches.inputs("A request file to estimate. May be repeated.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="To estimate for other models; a,b,c.")
@click.option(
    "--requests", type=options.Whole(min=1), metavar="N", help="Estimate so many requests without a file."
)
@click.option(
    "--tokens-in", type=options.Whole(min=0), default=60, metavar="N", help="Of such a request; 60."
)
@click.option("--tokens-out", type=options.Whole(min=0), default=300, metavar="N", help="Of its answer; 300.")
@batches.tracking
@options.output
def command(
    *,
    provider: str,
    named: tuple[Path, ...],
    files: tuple[Path, ...],
    models: tuple[str, ...],
    requests: int | None,
    tokens_in: int,
    tokens_out: int,
    tracking: Path,
) -> Shown:
    """Estimate files before they are submitted, or N requests to some models; without either, what batches did cost."""
    from trialrun.cli.amounts import usd
    from trialrun.cli.blocks import Block, Column, Table
    from trialrun.compat.batch_files.costing import before, of_number, so_far
    from trialrun.compat.batch_files.tracking import Ledger
    from trialrun.providers.prices import GenaiPrices

    ledger, prices = Ledger(tracking), GenaiPrices()
    paths, wanted = [*named, *files], batches.split(models)
    if requests is not None and not wanted:
        raise click.UsageError("--requests needs --model")
    if requests is not None:
        found = [
            of_number(provider, model, requests, prices=prices, tokens_in=tokens_in, tokens_out=tokens_out)
            for model in wanted
        ]
    elif paths:
        found = [
            line for path in paths for line in before(path, ledger, prices, service=provider, models=wanted)
        ]
    else:
        found = so_far(ledger)
    known = [line.spent_usd if not paths and requests is None else line.high_usd for line in found]
    total = None if None in known else sum((each for each in known if each is not None), Decimal(0))

    def blocks() -> list[Block]:
        heads = ("what", "model", "requests", "USD", "live USD", "never above", "spent")
        rows = [
            (
                line.what,
                line.model,
                f"{line.requests:,}" if line.requests is not None else "",
                _range(line.low_usd, line.high_usd),
                usd(line.live_usd) if line.live_usd is not None else "",
                usd(line.ceiling_usd) if line.ceiling_usd is not None else line.why_unknown,
                usd(line.spent_usd) if line.spent_usd is not None else "",
            )
            for line in found
        ]
        is_ahead = bool(paths) or requests is not None
        rows.append(
            ("all of it", "", "", usd(total) if is_ahead else "", "", "", "" if is_ahead else usd(total))
        )
        return [Table([Column(head) for head in heads], rows)]

    data = {"lines": list(found), "total_usd": total}
    return Shown(data=data, blocks=blocks)


def _range(low: Decimal | None, high: Decimal | None) -> str:
    from trialrun.cli.amounts import usd

    if low is None or high is None:
        return ""
    return usd(high) if low == high else f"{usd(low)} to {usd(high)}"
