"""`trialrun emulate`: the providers' protocols on this machine, with faults by script and a book of what they bill."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown

if TYPE_CHECKING:
    from trialrun.testing.emulator import Book, Emulator

_SHOWN = ("openai", "anthropic", "gemini", "vertex")


@click.command("emulate", short_help="Serve the providers' protocols here, with faults and a book.")
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="How the providers behave: latency, limits, faults (YAML or JSON).",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Answer from the study recorded in this folder.",
)
@click.option(
    "--book",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Append each line of the book to this file.",
)
@click.option("--seed", type=int, metavar="N", help="Root of all chance, before the script's own.")
@click.option("--port", type=options.Whole(0, 65535), default=0, metavar="N", help="A free one unless given.")
@click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help="Where to listen; this machine alone unless given."
)
@click.option("--open-to-network", is_flag=True, help="Allow an address that other machines can reach.")
@options.output
@click.pass_obj
def command(
    screen: Screen,
    *,
    script: Path | None,
    replay: Path | None,
    book: Path | None,
    seed: int | None,
    port: int,
    host: str,
    open_to_network: bool,
) -> Shown:
    """Serve the protocols of OpenAI, Anthropic, Gemini and Vertex until Ctrl-C.

    Real clients can be pointed at it; the lines that it prints set the addresses in a shell. Nothing leaves this
    machine and nothing is paid: the book says what would have been. At the end its sums are shown. With --json there is
    a document on the first line, as soon as it listens, with the address and the settings, and one at the end.
    """
    import asyncio

    from trialrun.testing.emulator import Emulator, script_from, with_seed

    chosen = with_seed(script_from(script), seed)
    source = None
    if replay is not None:
        from trialrun.testing.emulator.replay import Recorded

        source = Recorded(replay)
    emulator = Emulator(
        chosen, host=host, port=port, book_file=book, source=source, is_open_to_network=open_to_network
    )
    asyncio.run(_serve(screen, emulator))
    return _sums(emulator.book)


async def _serve(screen: Screen, emulator: "Emulator") -> None:
    """Until a signal comes, which is the normal end of a server."""
    import asyncio
    import signal

    from trialrun.cli.blocks import Verbatim

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    try:
        async with emulator:
            settings = emulator.settings(*_SHOWN)
            if screen.as_json:
                screen.show_start(
                    {"url": emulator.url, "book": f"{emulator.url}/__book", "settings": settings}
                )
            else:
                lines = [f"export {name}={value}" for name, value in settings.items()]
                screen.write_blocks([Verbatim("\n".join(lines))], screen.out)
            screen.note(f"listening at {emulator.url}; book at {emulator.url}/__book; Ctrl-C ends")
            if not emulator.is_local:
                screen.note("other machines can reach it", "loud")
            await ended.wait()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def _sums(book: "Book") -> Shown:
    from trialrun.cli.blocks import GAP, Block, Column, Line, Table

    stats = {name: sums.as_data() for name, sums in book.by_model.items()}

    def blocks() -> list[Block]:
        if not book.arrived:
            return [Line("no request came", "dim")]
        heads = [
            Column("model"),
            *(Column(name, "right") for name in ("requests", "answered", "billed", "USD", "billed and lost")),
        ]
        rows = [
            (
                name,
                str(sums.requests),
                str(sums.answered),
                str(sums.billed),
                f"{sums.cost_usd:f}" + (f" + {sums.unpriced} unknown" if sums.unpriced else ""),
                str(sums.billed_unreached),
            )
            for name, sums in book.by_model.items()
        ]
        ways = ", ".join(f"{count} {outcome}" for outcome, count in sorted(book.outcomes.items()))
        return [GAP, Table(heads, rows), Line(ways, "dim")]

    data = {
        "arrived": book.arrived,
        "outcomes": book.outcomes,
        "by_model": stats,
        "total": book.total.as_data(),
    }
    return Shown(data=data, blocks=blocks)
