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
    from trialrun.core.totals import spelled

    screen.folder = results_of(study, lane="live")
    packs = packs_of(screen.folder)

    def differs(pack: "Pack") -> str:
        return spelled(pack.off)

    def why(pack: "Pack") -> str:
        return pack.reason

    extra = [
        (name, cell) for name, cell in (("totals differ by", differs), ("why", why)) if any(map(cell, packs))
    ]

    def row(pack: "Pack") -> tuple[str, ...]:
        look = pack.look
        done = (
            f"{look.done:,} of {pack.requests:,}" if look and look.done is not None else f"{pack.requests:,}"
        )
        word = look.word if look is not None and pack.stage == "created" else pack.stage
        known = (pack.id, pack.model, word, done, _time(pack.built_at), pack.batch or "-")
        return (*known, *(cell(pack) for _, cell in extra))

    columns = [
        Column(name) for name in ("batch", "model", "stands at", "calls", "built (UTC)", "provider's id")
    ]
    columns += [Column(name, is_prose=True) for name, _ in extra]
    return Shown(
        data={"folder": str(screen.folder), "batches": [_data(pack) for pack in packs]},
        blocks=lambda: (
            [Table(columns, [row(pack) for pack in packs])]
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
        "totals": _totals(pack),
        "reason": pack.reason,
    }


def _totals(pack: "Pack") -> dict[str, object] | None:
    """What the provider says of the whole, what was settled, and by how much they differ; null if it says nothing."""
    if pack.balance is None:
        return None
    three = {"said": pack.balance.said, "settled": pack.balance.settled, "difference": pack.off}
    return {name: {key: getattr(each, key) for key in each.__struct_fields__} for name, each in three.items()}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
