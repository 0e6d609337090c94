"""Small finished talks, rubrics and scripted raters, for tests of judging."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.behaviour.support import OnePrice, make_plan, run
from trialrun.app.judging.plans import JudgingPlan
from trialrun.app.judging.running import JudgingSession
from trialrun.app.judging.wishes import Wish, judging_plans
from trialrun.app.running import Options, Ran, run_study
from trialrun.app.studies import Plan
from trialrun.core.calls import Call
from trialrun.core.ports import Provider
from trialrun.store.archive import Archive
from trialrun.store.tables import Rating
from trialrun.testing.scripted import Scripted

TALK: dict[str, Any] = {
    "study": "talks",
    "procedure": "conversation",
    "parties": {
        "asker": {
            "model": "x/quizmaster-9",
            "prompt": "You ask, {{ manner }}.",
            "values": {"manner": "plainly"},
            "max_tokens": 50,
        },
        "teller": {
            "model": "y/storyteller-7",
            "prompt": "You tell.",
            "values": {"profile": {"fear": "being found out", "wish": "to be left alone"}},
            "max_tokens": 50,
        },
    },
    "factors": {"manner": {"parties.asker.values.manner": ["gruffly", "sweetly"]}},
    "settings": {"max_turns": 3},
    "replicates": 2,
    "measures": [],
}
RUBRIC = """
name: openness
models: [z/rater-1]
items:
  - {id: open, question: How open is the teller?, paradigm: scalar, scale: [1, 5]}
"""
TURNS = """
name: turns
subject: teller
granularity: turn
models: [z/rater-1]
items:
  - {id: open, question: How open is it?, paradigm: scalar, scale: [1, 5]}
  - {id: about, question: What is it about?, paradigm: categorical, labels: [work, home, health]}
  - {id: asks, question: Is it a question?, paradigm: binary}
"""


async def talked(folder: Path, **changes: Any) -> Plan:
    """A finished study whose every utterance is its own."""
    plan = make_plan(folder, **{**TALK, **changes})
    ran = await run(plan, Scripted(lambda call: f"{call.party} says {call.address} in {call.trial[-9:]}"))
    assert ran.exit == 0
    return plan


def rubric(folder: Path, text: str = RUBRIC, name: str = "rubric.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def rater(value: Callable[[Call, Mapping[str, Any]], object] | None = None, **more: Any) -> Scripted:
    """Answers every form: the lowest score, the first label, true, or what `value` makes of a value's schema."""
    return Scripted(lambda call: json.dumps(filled(call.request.schema, call, value)), **more)


def filled(schema: Any, call: Call, value: Callable[[Call, Mapping[str, Any]], object] | None) -> Any:
    properties = schema["properties"]
    if "abstains" not in properties:
        return {name: filled(part, call, value) for name, part in properties.items()}
    name = next(name for name in properties if name not in ("explanation", "abstains"))
    form = properties[name]
    given = value(call, form) if value else None
    return {
        "explanation": f"because of {call.address}",
        "abstains": given == "abstain",
        name: lowest(form) if given in (None, "abstain") else given,
    }


def lowest(form: Mapping[str, Any]) -> object:
    match form:
        case {"type": "integer"}:
            return form["minimum"]
        case {"enum": labels}:
            return labels[0]
        case {"type": "boolean"}:
            return True
        case {"properties": properties}:
            return {name: [f"found {name}"] for name in properties}
        case _:
            raise AssertionError(form)


def passes(plan: Plan, file: Path | None, **wish: Any) -> list[JudgingPlan]:
    return judging_plans(plan.folder, Wish(rubric=file, **wish))


async def judge(
    plan: Plan, file: Path | None, provider: Provider, options: Options | None = None, **wish: Any
) -> Ran:
    """One pass over a finished study."""
    [found] = passes(plan, file, **wish)
    return await judge_plan(found, provider, options)


async def judge_plan(
    plan: JudgingPlan, provider: Provider, options: Options | None = None, **parts: Any
) -> Ran:
    return await run_study(
        plan,
        options,
        route=lambda _: provider,
        prices=parts.pop("prices", OnePrice()),
        session_of=JudgingSession,
        **parts,
    )


def ratings(plan: Plan) -> list[Rating]:
    with Archive(plan.folder) as archive:
        return list(archive.ratings())
