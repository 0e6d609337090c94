"""A batch as an ordinary study: variations are factors, limits are limits, and the scenario is its world."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from trialrun.app.foreign import Translation
from trialrun.compat.scenario_lab.batch_file import Batch, Variation, no_actor, read_batch
from trialrun.core.near import pick
from trialrun.core.paths import Path as Place
from trialrun.core.paths import as_map
from trialrun.core.reading.mistakes import Mistakes
from trialrun.core.reading.source import Place as Lines
from trialrun.core.reading.source import Source, read_source
from trialrun.procedures.scenario.spelling import KNOWN, SAME
from trialrun.providers.registry import ENDPOINTS

Data = Mapping[str, object]
WORLD = "settings.world"
_OWN = ("parties", "settings", "judges")
_ALWAYS = ("local", "rehearsal")
_LONGEST_NAME = 64


def translated(file: Path, text: str) -> Translation:
    """The study that a batch file stands for. Raises StudyMistakes."""
    batch, source, mistakes = read_batch(text, file=str(file))
    home = _home_of(batch.base_scenario, file)
    if home is None:
        folder = Path(batch.base_scenario)
        near = [str(each) for each in folder.parent.glob("*/") if (each / "scenario.yaml").is_file()]
        what = f"there is no scenario `{batch.base_scenario}`"
        fix = pick(
            batch.base_scenario, near, otherwise="give the path of a folder that holds a scenario.yaml"
        )
        mistakes.add(what, ("base_scenario",), fix)
        mistakes.raise_if_any()
        home = Path()
    scenario = _Scenario(home / batch.base_scenario)
    factors = {each.name: {scenario.path_of(each): _values(each)} for each in batch.variations}
    _check_actors(batch, scenario, mistakes)
    mistakes.raise_if_any()
    return Translation(
        document=_document(batch, factors),
        home=home,
        folder=home / batch.output_dir,
        text=text,
        places=dict(_places(batch, source, scenario)),
    )


def _home_of(base_scenario: str, file: Path) -> Path | None:
    """Where the paths of a batch start: the nearest folder above its file, else the working folder, that has its
    scenario. So it does not matter from where a command is given. A scenario that is named by its whole path says
    nothing about the others, which start from the working folder."""
    above = () if Path(base_scenario).is_absolute() else file.resolve().parents
    for folder in (*above, Path.cwd()):
        if (folder / base_scenario).is_dir():
            return folder
    return None


class _Scenario:
    """What a batch has to know of its scenario: who takes part, and how the file spells its keys."""

    def __init__(self, folder: Path) -> None:
        text = _text_of(folder / "scenario.yaml") or _text_of(folder / "scenario.yml")
        self._keys = dict(as_map(read_source(text, file="").data) or {})
        listed = self._keys.get("actors")
        self.actors = [str(name) for name in listed] if isinstance(listed, list) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]

    def path_of(self, variation: Variation) -> str:
        """The dotted path of the study that a variation sets."""
        match variation.kind:
            case "actor_model":
                return f"parties.{variation.subject}.model"
            case "scenario_parameter":
                return f"{WORLD}.scenario.{self._spelled(variation.subject)}"
            case "path":
                first = variation.subject.partition(".")[0]
                return (
                    variation.subject
                    if first in _OWN or first not in KNOWN
                    else f"{WORLD}.{variation.subject}"
                )

    def _spelled(self, parameter: str) -> str:
        """The key as this scenario spells it: its file may use another name for the same."""
        first, dot, rest = parameter.partition(".")
        same = SAME["scenario"]
        alike = [
            name for name in {**same, **{new: old for old, new in same.items()}} if _one(name) == _one(first)
        ]
        there = next((name for name in (first, *alike) if name in self._keys), first)
        return f"{there}{dot}{rest}"


def _one(key: str) -> str:
    return SAME["scenario"].get(key, key)


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _check_actors(batch: Batch, scenario: _Scenario, mistakes: Mistakes) -> None:
    for place, each in enumerate(batch.variations):
        if each.kind == "actor_model" and scenario.actors and each.subject not in scenario.actors:
            what, fix = no_actor(each, scenario.actors)
            mistakes.add(what, ("variations", place, "actor"), fix)


def _document(batch: Batch, factors: Data) -> dict[str, object]:
    budget: dict[str, object] = {}
    if batch.budget_limit is not None:
        budget["study"] = str(batch.budget_limit)
    if batch.cost_per_run_limit is not None:
        budget["trial"] = str(batch.cost_per_run_limit)
    free = {model for each in batch.variations for model in _values(each) if str(model).endswith(":free")}
    found: dict[str, object] = {
        "study": name_of(batch),
        "question": batch.description or batch.experiment_name,
        "procedure": "scenario",
        "settings": {"world": batch.base_scenario},
        "factors": factors,
        "replicates": batch.runs_per_variation,
        "budget_usd": budget,
        "limits": {"open_trials": batch.max_parallel, "trial_timeout_s": batch.timeout_per_run},
        "prices": {str(model): {"input": 0, "output": 0} for model in sorted(map(str, free))},
    }
    return {key: value for key, value in found.items() if value != {}}


def name_of(batch: Batch) -> str:
    """The name of the study: the experiment's, in the letters that a study may have."""
    plain = re.sub(r"[^a-z0-9._-]+", "-", batch.experiment_name.lower()).strip("-._")
    return plain[:_LONGEST_NAME].strip("-._") or "batch"


def _values(variation: Variation) -> list[object]:
    is_model = variation.kind == "actor_model"
    return [_model(value) if is_model and isinstance(value, str) else value for value in variation.values]


def _model(name: str) -> str:
    """A model by the name that Trialrun knows. If its first word is no provider of ours, OpenRouter has it."""
    provider, slash, _ = name.partition("/")
    own = f"{provider.upper().replace('-', '_')}_BASE_URL"
    is_known = provider in ENDPOINTS or provider in _ALWAYS or own in os.environ
    return name if is_known or not slash else f"openrouter/{name}"


def _places(batch: Batch, source: Source, scenario: _Scenario) -> Iterator[tuple[Place, Lines]]:
    """Which line of the batch file says what stands where in the study."""
    same: list[tuple[Place, Place]] = [
        (("study",), ("experiment_name",)),
        (("settings", "world"), ("base_scenario",)),
        (("replicates",), ("runs_per_variation",)),
        (("budget_usd",), ("budget_limit",)),
        (("budget_usd", "study"), ("budget_limit",)),
        (("budget_usd", "trial"), ("cost_per_run_limit",)),
        (("limits", "open_trials"), ("max_parallel",)),
        (("limits", "trial_timeout_s"), ("timeout_per_run",)),
        (("factors",), ("variations",)),
    ]
    for place, each in enumerate(batch.variations):
        path = scenario.path_of(each)
        same.append((("factors", each.name), ("variations", place)))
        same += [
            (("factors", each.name, path, number), ("variations", place, "values", number))
            for number in range(len(each.values))
        ]
    for ours, theirs in same:
        if theirs in source.places:
            yield ours, source.places[theirs]
