"""PatientHub as a format of foreign plans (`compat.registry`)."""

import re
from pathlib import Path

from trialrun.app.foreign import Offer, Translation, View

NAME = "patienthub"


class PatientHub:
    """Batches of therapy sessions."""

    def translate(self, file: Path, text: str) -> Translation:
        """The study that a batch file stands for."""
        from trialrun.compat.patienthub.translation import translated

        return translated(file, text)

    def view(self, folder: Path) -> View | None:
        """The files of the batch, beside the journal."""
        from trialrun.compat.patienthub.view import Sessions

        return Sessions(folder)


def _is_batch(_: str, text: str) -> bool:
    """A batch lists clients and therapists at its top; a study has neither there."""
    return bool(re.search(r"^(?:clients|therapists)\s*:", text, re.MULTILINE))


OFFER = Offer(
    name=NAME,
    files=("batch_config.yaml", "batch_config.yml"),
    recognises=_is_batch,
    made=PatientHub,
)
