"""`trialrun batch list`: where the batches of a study stand."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trialrun.cli import options
from trialrun.cli.screen import Screen, Shown

if TYPE_CHECKING:
    from trialrun.core.packs import Pack


@click.command("list", short_help="Where the batches of a study stand.")
@options.study
@options.output
@click.pass_obj
def command(screen: Screen, *, study: Path) -> Shown:
    """List the provider batches of STUDY as the journal knows them, oldest first. Asks no provider."""
    from trialrun.app.packs import packs_of
    from trialrun.app.studies import results_of
    from trialrun.cli.blocks import Column, Line, Table

    screen.folder = results_of(study, lane="live")
    packs = packs_of(screen.folder)

    def row(pack: "Pack") -> tuple[str, ...]:
        look = pack.look
        done = (
            f"{look.done:,} of {pack.requests:,}" if look and look.done is not None else f"{pack.requests:,}"
        )
        word = look.word if look is not None and pack.stage == "created" else pack.stage
        return pack.id, pack.model, word, done, _time(pack.built_at), pack.batch or "-", pack.reason

    columns = [
        Column(name) for name in ("batch", "model", "stands at", "calls", "built (UTC)", "provider's id")
    ]
    if any(pack.reason for pack in packs):
        columns.append(Column("why", is_prose=True))
    return Shown(
        data={"folder": str(screen.folder), "batches": [_data(pack) for pack in packs]},
        blocks=lambda: (
            [Table(columns, [row(pack)[: len(columns)] for pack in packs])]
            if packs
            else [Line("the study has made no batches")]
        ),
    )


def _data(pack: "Pack") -> dict[str, object]:
    look = pack.look
    return {
        "id": pack.id,
        "model": pack.model,
        "stage": pack.stage,
        "batch": pack.batch,
        "word": look.word if look else None,
        "requests": pack.requests,
        "done": look.done if look else None,
        "failed": look.failed if look else None,
        "ceiling_usd": pack.ceiling_usd,
        "built_at": pack.built_at,
        "created_at": pack.created_at,
        "closed_at": pack.closed_at,
        "counts": pack.counts,
        "reason": pack.reason,
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
