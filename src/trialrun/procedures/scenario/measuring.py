"""Takes the metrics of a turn: by pattern and keyword at once, by models side by side, by people at the end.

A metric that has no value is missing, with the reason; nothing becomes 0.
"""

from collections.abc import Awaitable, Callable
from typing import cast

from trialrun.core.errors import CallError, ReplyUnreadable
from trialrun.core.ports import Lab
from trialrun.procedures.scenario import forms, prompts
from trialrun.procedures.scenario.extraction import Found, crossed, extracted, typed
from trialrun.procedures.scenario.stage import Stage, filled
from trialrun.procedures.scenario.world import WORLD, Metric

Taking = tuple[str, Metric, str]
"""A measure's name, its metric, and the text that it is taken from."""


async def measure(lab: Lab, stage: Stage) -> None:
    """Take every metric of this turn that is not for a person."""
    takings = [taking for metric in stage.world.metrics for taking in _texts(stage, metric)]
    by_model = [taking for taking in takings if taking[1].method == "model"]
    found = await lab.together(*[_asked(*taking) for taking in by_model])
    answers = {taking[0]: each for taking, each in zip(by_model, found, strict=True)}
    for name, metric, text in takings:
        if metric.method != "manual":
            _record(lab, stage, name, metric, answers.get(name) or extracted(metric, text))


async def measure_by_hand(lab: Lab, stage: Stage) -> None:
    """Put the metrics that a person takes to that person, in view of the last turn."""
    for metric in stage.world.metrics:
        for name, _, text in _texts(stage, metric) if metric.method == "manual" else ():
            answer = await lab.ask_human(
                f"{prompts.metric_question(metric, text)}\n\nMeasure: {name}. Anything that is no value means that "
                "there is none.",
                options=_options(metric),
                party="rater",
            )
            _record(lab, stage, name, metric, typed(metric, answer))


def _options(metric: Metric) -> tuple[str, ...]:
    match metric.kind:
        case "label":
            return (*metric.categories, "not known")
        case "truth":
            return ("yes", "no", "not known")
        case _:
            return ()


def _texts(stage: Stage, metric: Metric) -> list[Taking]:
    if not metric.actors:
        return [(metric.name, metric, stage.turn.state)]
    texts = [stage.turn.decisions[actor].action for actor in metric.actors]
    return [(name, metric, text) for name, text in zip(metric.measures, texts, strict=True)]


def _record(lab: Lab, stage: Stage, name: str, metric: Metric, found: Found) -> None:
    lab.measure(name, found.value, note=found.note)
    if found.value is None:
        return
    stage.history.values[name] = found.value
    threshold = crossed(metric, found.value)
    if threshold:
        lab.state(WORLD, metric=name, value=found.value, threshold=threshold)


def _asked(name: str, metric: Metric, text: str) -> Callable[[Lab], Awaitable[Found]]:
    async def ask(lab: Lab) -> Found:
        question = prompts.metric_question(metric, text)
        try:
            data = await filled(
                lab,
                metric.party,
                question,
                forms.value(metric),
                f"metric {name}",
                system="You take values from texts, exactly and without guessing.",
            )
        except (CallError, ReplyUnreadable) as error:
            return Found(None, f"{type(error).__name__}: {error.what}")
        if not data["is_known"]:
            return Found(None, "the text does not say it")
        return typed(metric, cast("str", data["value"]))

    return ask
