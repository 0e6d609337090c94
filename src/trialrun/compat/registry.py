"""The plan formats of other tools that Trialrun reads: how each is recognised, and where its translation is.

A new format is an entry here, and a module with a `Format` (`app.foreign`). Recognising must be cheap and sure: it
happens to every study file that a command opens, and a plan of Trialrun itself must never be taken for another tool's.
"""

import re

from trialrun.app import foreign
from trialrun.app.foreign import Format, Offer
from trialrun.compat.patienthub import format as patienthub


def offer_all() -> None:
    """Make the formats known. Front doors call it before they open a study."""
    for each in OFFERS:
        foreign.offer(each)


def _scenario_lab() -> Format:
    from trialrun.compat.scenario_lab.format import ScenarioLab

    return ScenarioLab()


def _is_batch(_: str, text: str) -> bool:
    """A batch of Scenario Lab says what it is called and what it repeats; one of the two may have been forgotten."""
    return bool(re.search(r"^(?:experiment_name|base_scenario)\s*:", text, re.MULTILINE))


OFFERS = (
    Offer(
        name="scenario-lab",
        files=("batch-config.yaml", "batch-config.yml"),
        recognises=_is_batch,
        made=_scenario_lab,
    ),
    patienthub.OFFER,
)
