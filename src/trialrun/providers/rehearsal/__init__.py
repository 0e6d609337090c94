"""The embedded default lane: plays the models of a study with no key, no network and no cost.

What it says is made up, so its data is marked in every output; what it exercises is real: schemas, limits, failures,
waiting, prices. `docs/design/rehearsal.md` says why it is built this way.
"""

from trialrun.providers.rehearsal.profiles import Profile, profile_of
from trialrun.providers.rehearsal.provider import RehearsalProvider

__all__ = ["Profile", "RehearsalProvider", "profile_of"]
