"""Whether the lines of a pack come to what its provider says that the whole comes to.

What is settled is summed where it passes: on its way into the journal, and out of it where an earlier run settled some.
Nothing is read a second time. A difference changes no cost; it is a fact, and shown until somebody has looked into it.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

from trialrun.core import facts as f
from trialrun.core import pack_facts as p
from trialrun.core.facts import Entry
from trialrun.core.packs import Pack
from trialrun.core.ports import Journal
from trialrun.core.totals import Totals
from trialrun.gateway.batches.unpacking import Till

_ZERO = Decimal(0)


class Summed:
    """A journal that sums what is settled for one pack."""

    def __init__(self, journal: Journal, pack: str) -> None:
        self._journal = journal
        self._pack = pack
        self._replies = self._tokens_in = self._tokens_out = 0
        self._cost_usd = _ZERO
        self._are_tokens_known = self._is_cost_known = True
        self._attempts: set[tuple[str, str, int]] = set()
        """Of earlier runs: a second bill does not say with which pack it came."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def append(
        self,
        trial: str,
        facts: Sequence[f.TrialFact] | Sequence[f.StudyFact],
        texts: Mapping[str, str | bytes] | None = None,
    ) -> None:
        self._journal.append(trial, facts, texts)
        for fact in facts:
            if isinstance(fact, f.Settled | f.Charged):
                self._add(fact)

    async def since(self, seq: int, *kinds: str) -> AsyncIterator[Entry]:
        async for entry in self._journal.since(seq, *kinds):
            fact = entry.fact
            if isinstance(fact, f.Settled) and fact.pack == self._pack:
                self._attempts.add((entry.trial, fact.at, fact.attempt))
                self._add(fact)
            elif isinstance(fact, f.Charged) and (entry.trial, fact.at, fact.attempt) in self._attempts:
                self._add(fact)
            yield entry

    def _add(self, fact: f.Settled | f.Charged) -> None:
        usage = fact.usage
        if usage is None:
            self._are_tokens_known = False
        else:
            self._tokens_in += usage.tokens_in
            self._tokens_out += usage.tokens_out
        # A prompt that was declined is a reply to us and a failure to the provider, and costs nobody a token.
        if isinstance(fact, f.Settled) and (usage is None or usage.tokens_in or usage.tokens_out):
            self._replies += 1
        if fact.cost_usd is None:
            self._is_cost_known = False
        else:
            self._cost_usd += fact.cost_usd

    @property
    def totals(self) -> Totals:
        """What was settled; where one reply does not say what it took, nobody knows what all of them did."""
        return Totals(
            replies=self._replies,
            tokens_in=self._tokens_in if self._are_tokens_known else None,
            tokens_out=self._tokens_out if self._are_tokens_known else None,
            cost_usd=self._cost_usd if self._is_cost_known else None,
        )


def summed(till: Till, pack: Pack) -> tuple[Till, Summed]:
    """The same till, with a journal that sums."""
    journal = Summed(till.journal, pack.id)
    # It is a journal in all that it has from another one; no type can say that of `__getattr__`.
    return replace(till, journal=cast("Journal", journal)), journal


def balance_of(pack: Pack, settled: Totals) -> p.PackBalanced | None:
    """The fact; None where the provider says nothing of the whole."""
    look = pack.look
    if look is None:
        return None
    said = look.totals or Totals()
    if said.replies is None and look.done is not None:
        said = Totals(
            replies=look.done, tokens_in=said.tokens_in, tokens_out=said.tokens_out, cost_usd=said.cost_usd
        )
    return p.PackBalanced(pack=pack.id, said=said, settled=settled) if said else None
