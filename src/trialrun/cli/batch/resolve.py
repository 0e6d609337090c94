"""`trialrun batch resolve`: a person's decision about a batch in doubt."""

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown

if TYPE_CHECKING:
    from trialrun.core.pack_facts import Decision


@click.command("resolve", short_help="Decide about a batch in doubt.")
@options.study
@click.argument("batch", metavar="BATCH")
@click.option(
    "--as",
    "decision",
    required=True,
    type=click.Choice(["send-again", "unbilled", "adopt", "accept"]),
    help="What to do with it; see above.",
)
@click.option(
    "--batch", "adopted", default="", metavar="ID", help="With `adopt`: the provider's id of the batch."
)
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path, batch: str, decision: str, adopted: str) -> Shown:
    """Decide about BATCH of STUDY, of which nobody knows what became of it; the next run carries the decision out.

    \b
    send-again  ask its open calls again; what was held stays held, as it may be billed
    unbilled    the provider's records show no bill: release the holds, and ask again
    adopt       the batch ID of the provider is this one: follow it
    accept      take the results that are ours, in spite of foreign ones beside them
    """
    import asyncio

    from trialrun.app.packs import decide
    from trialrun.app.studies import results_of
    from trialrun.cli.blocks import Line

    screen.folder = results_of(study, lane="live")
    word = cast("Decision", decision.replace("-", "_"))
    pack = asyncio.run(decide(screen.folder, batch, word, batch=adopted))
    data = {"folder": str(screen.folder), "batch": pack.id, "decision": decision}
    return Shown(
        data=data, blocks=lambda: [Line(f"noted: {pack.id} {decision}; `trialrun run` carries it out")]
    )
