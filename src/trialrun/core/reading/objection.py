"""One thing that is wrong in a study, before it is known which line of which file says it."""

from dataclasses import dataclass

from trialrun.core.paths import Path


@dataclass(frozen=True, slots=True)
class Objection:
    """One thing that is wrong: where, what, and how to mend it."""

    path: Path
    what: str
    fix: str
    at_key: bool = False
