"""The providers' protocols on loopback, with a script of faults and a book of what a real provider would bill.

    async with Emulator({"faults": [{"fault": "broken", "share": 0.05}]}) as server:
        client = openai.AsyncOpenAI(base_url=server.base_url("openai"), api_key="any", max_retries=0)
        ...
        print(server.book.billed_usd)

`docs/emulator.md` is the guide; `docs/design/emulator.md` says why it is built this way.
"""

from trialrun.testing.emulator.book import Book, Entry, Totals, key_name, read_book
from trialrun.testing.emulator.limits import Cut, Limit
from trialrun.testing.emulator.script import Batches, Rates, Rule, Script, script_from, with_seed
from trialrun.testing.emulator.server import Emulator

__all__ = [
    "Batches",
    "Book",
    "Cut",
    "Emulator",
    "Entry",
    "Limit",
    "Rates",
    "Rule",
    "Script",
    "Totals",
    "key_name",
    "read_book",
    "script_from",
    "with_seed",
]
