"""What a person decided about a pack in doubt, carried out at the beginning of the next run.

send_again  its open calls are asked anew; what is held for the first attempt stays held, as it may be billed
unbilled    the provider's records show no bill: the holds are released, and the calls are asked anew
adopt       this batch of the provider is the pack: follow it
accept      take the results that have our ids, in spite of foreign ones
"""

from decimal import Decimal

from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.packs import Pack
from trialrun.core.ports import Clock
from trialrun.gateway.batches.unpacking import Ended, Till


async def carry_out(pack: Pack, till: Till, *, clock: Clock, ended: Ended) -> None:
    """Do what was decided, if the pack is in doubt and somebody decided."""
    decided = pack.decision
    if pack.stage != "doubted" or decided is None:
        return
    match decided.decision:
        case "adopt":
            fact: p.PackFact = p.PackCreated(pack=pack.id, batch=decided.batch, is_found=True)
        case "accept":
            fact = p.PackFetched(pack=pack.id, files=pack.files)
        case "send_again" | "unbilled":
            counts = {
                decided.decision: _end_rows(pack, till, ended, is_billed=decided.decision == "send_again")
            }
            fact = p.PackClosed(pack=pack.id, counts=counts)
    till.journal.append("", [fact])
    await till.journal.commit()
    pack.apply(fact, clock.now())


def _end_rows(pack: Pack, till: Till, ended: Ended, *, is_billed: bool) -> int:
    """End the attempts that are open: in doubt, or released."""
    count = 0
    for row in till.packs.rows(pack.id):
        if row.key in ended.surely:
            continue
        count += 1
        held = row.ceiling_usd or Decimal(0)
        if not is_billed:
            reason = "a person found no bill of it"
            released = f.Released(at=row.at, attempt=row.attempt, error="Unbilled", reason=reason)
            till.journal.append(row.trial, [released])
            till.purse.ledger.forget(row.condition, row.trial, held)
        elif row.key not in ended.in_doubt:
            reason = f"{pack.reason}; asked again"
            doubted = f.Doubted(at=row.at, attempt=row.attempt, error="InDoubt", reason=reason)
            till.journal.append(row.trial, [doubted])
        if row.key not in ended.in_doubt:
            till.purse.doubt(row, held)
    return count
