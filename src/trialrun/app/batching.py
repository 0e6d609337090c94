"""Puts the batch lane of a run together: for new calls where the study asks for it, and for whatever is still out."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from trialrun.app.studies import Plan
from trialrun.core.batches import BatchRoute
from trialrun.core.identity import study_tag
from trialrun.core.packs import packs_in
from trialrun.core.ports import Clock, Journal, PriceBook
from trialrun.gateway.gateway import Gateway

if TYPE_CHECKING:
    from trialrun.gateway.batches.lane import BatchLane


async def batch_lane(
    plan: Plan,
    gateway: Gateway,
    *,
    journal: Journal,
    route: Callable[[str], BatchRoute],
    prices: PriceBook,
    clock: Clock,
    tell: Callable[[str], None],
    is_detached: bool,
) -> "BatchLane | None":
    """The lane, with what is out already in it. None where nothing is out and nothing new goes that way."""
    takes_new = plan.lane == "batch"
    is_out = any(pack.is_open for pack in packs_in(await journal.facts_of("")).values())
    if not takes_new and not is_out:
        return None
    # Live runs, which are most, do not wait for its import.
    from trialrun.gateway.batches.lane import BatchLane, LaneParts
    from trialrun.store.packs import FilePacks

    lane = BatchLane(
        LaneParts(
            gateway=gateway,
            journal=journal,
            route=route,
            prices=prices,
            packs=FilePacks(plan.folder),
            settings=plan.study.batching,
            limits=plan.study.limits,
            clock=clock,
            study=plan.study.name,
            tag=study_tag(plan.study.name, plan.study.seed),
            tell=tell,
            is_detached=is_detached,
            takes_new=takes_new,
        )
    )
    await lane.recall()
    return lane
