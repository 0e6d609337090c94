"""`trialrun prices`: what a model costs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.cli import options
from trialrun.cli.screen import Shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trialrun.core.study import Price


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
    """Show what MODEL costs in USD per million tokens, live and in a batch, and how that is known.

    A MODEL is written provider/model, such as openai/gpt-5-mini.
    """
    from trialrun.app.price_list import quote_of
    from trialrun.cli.blocks import Block, Column, Line, Table

    quote = quote_of(model, study=study)
    live, batch = list(_steps(quote.live)), list(_steps(quote.batch))
    heads = ["input", "output", "cached input", "cache write"]
    has_reasoning = any(rates.reasoning is not None for _, rates in (*live, *batch))
    heads += ["reasoning"] if has_reasoning else []

    def row(start: int, rates: "Price", lane: str) -> tuple[str, ...]:
        above = f"above {start:,} tokens in" if start else ""
        cells = _cells(rates)[: len(heads)]
        return (", ".join(part for part in (lane, above) if part) or "any", *cells)

    def blocks() -> list[Block]:
        rows = [row(start, rates, "") for start, rates in live]
        if [_cells(rates) for _, rates in batch] != [_cells(rates) for _, rates in live]:
            rows += [row(start, rates, "in a batch") for start, rates in batch]
        since = quote.list_latest_change
        dated = f"; the newest dated price of that list is of {since}" if since else ""
        is_listed = quote.live.source.startswith(quote.list_name)
        return [
            Line(f"{model}, USD per million tokens on {quote.on}", "title"),
            Table([Column("call"), *(Column(name, "right") for name in heads)], rows),
            Line(f"from {quote.live.source}" + (dated if is_listed else ""), "dim"),
        ]

    data = {
        "model": model,
        "on": str(quote.on),
        "usd_per_million_tokens": [_as_data(start, rates) for start, rates in live],
        "batch_usd_per_million_tokens": [_as_data(start, rates) for start, rates in batch],
        "source": quote.live.source,
        "batch_source": quote.batch.source,
        "list": quote.list_name,
        "list_latest_change": quote.list_latest_change and str(quote.list_latest_change),
    }
    return Shown(data=data, blocks=blocks)


def _steps(price: "Price") -> "Iterator[tuple[int, Price]]":
    """The rates, each with the input tokens above which they hold."""
    yield 0, price
    yield from price.tiers


def _cells(rates: "Price") -> list[str]:
    given = (
        (rates.input, ""),
        (rates.output, ""),
        (rates.cached_input, "as input"),
        (rates.cache_write, "as input"),
        (rates.reasoning, "as output"),
    )
    return [otherwise if rate is None else f"{rate.normalize():f}" for rate, otherwise in given]


def _as_data(start: int, rates: "Price") -> dict[str, object]:
    return {
        "above_tokens_in": start,
        "input": rates.input,
        "output": rates.output,
        "cached_input": rates.cached_input,
        "cache_write": rates.cache_write,
        "reasoning": rates.reasoning,
    }
