"""Runs experiments on language models as experiments.

    import trialrun as tr

    results = tr.run("study.yaml", lane="rehearsal")
    results.summary()

Nothing is imported before it is used. What `__all__` lists is the public surface; everything else may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from trialrun.core.version import VERSION

if TYPE_CHECKING:
    from trialrun.app.api import Draft, Planned, Results, load, plan, run, study
    from trialrun.app.exits import Exit
    from trialrun.core.calls import Message, Reply, Tool, ToolCall
    from trialrun.core.errors import TrialrunError
    from trialrun.core.ports import Lab, Outcome, Procedure
    from trialrun.core.study import Party, Trial
    from trialrun.procedures.therapy.actors import Line, Scene

__all__ = [
    "Draft",
    "Exit",
    "Lab",
    "Line",
    "Message",
    "Outcome",
    "Party",
    "Planned",
    "Procedure",
    "Reply",
    "Results",
    "Scene",
    "Tool",
    "ToolCall",
    "Trial",
    "TrialrunError",
    "__version__",
    "load",
    "plan",
    "run",
    "study",
]

__version__ = VERSION

_HOMES = {
    "trialrun.app.api": ("Draft", "Planned", "Results", "load", "plan", "run", "study"),
    "trialrun.app.exits": ("Exit",),
    "trialrun.core.calls": ("Message", "Reply", "Tool", "ToolCall"),
    "trialrun.core.errors": ("TrialrunError",),
    "trialrun.core.ports": ("Lab", "Outcome", "Procedure"),
    "trialrun.core.study": ("Party", "Trial"),
    "trialrun.procedures.therapy.actors": ("Line", "Scene"),
}


def __getattr__(name: str) -> object:
    for home, names in _HOMES.items():
        if name in names:
            if home == "trialrun.app.api":
                # Studies may be plans of other tools; those who know them stand above the API.
                import_module("trialrun.compat.registry").offer_all()
            return getattr(import_module(home), name)
    raise AttributeError(f"module `trialrun` has no `{name}`")


def __dir__() -> list[str]:
    return __all__
