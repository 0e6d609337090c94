"""`trialrun prices`: what a model costs."""

from pathlib import Path

import click

from trialrun.cli import options
from trialrun.cli.screen import Shown


@click.command("prices", short_help="What a model costs, and how that is known.")
@click.argument("model", metavar="MODEL")
@click.option(
    "--study",
    type=click.Path(path_type=Path),
    metavar="STUDY",
    help="A study whose own prices go before the list.",
)
@options.output
def command(model: str, study: Path | None) -> Shown:
    """Show what MODEL costs in USD per million tokens, and how that is known.

    A MODEL is written provider/model, such as openai/gpt-5-mini.
    """
    from trialrun.app.price_list import price_of
    from trialrun.cli.blocks import Block, Column, Line, Table
    from trialrun.core.study import Price

    price = price_of(model, study=study)
    steps = [(0, price), *price.tiers]

    def row(start: int, rates: Price) -> tuple[str, ...]:
        from_ = f"above {start:,} tokens in" if start else "any"
        cells = [rates.input, rates.output, rates.cached_input, rates.cache_write]
        return (from_, *("as input" if cell is None else f"{cell.normalize():f}" for cell in cells))

    def blocks() -> list[Block]:
        heads = [
            Column("call"),
            *(Column(name, "right") for name in ("input", "output", "cached input", "cache write")),
        ]
        return [
            Line(f"{model}, USD per million tokens", "title"),
            Table(heads, [row(start, rates) for start, rates in steps]),
            Line(f"from {price.source}", "dim"),
        ]

    data = {
        "model": model,
        "usd_per_million_tokens": [
            {
                "above_tokens_in": start,
                "input": rates.input,
                "output": rates.output,
                "cached_input": rates.cached_input,
                "cache_write": rates.cache_write,
            }
            for start, rates in steps
        ],
        "source": price.source,
    }
    return Shown(data=data, blocks=blocks)
