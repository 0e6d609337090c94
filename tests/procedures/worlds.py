"""Small scenarios on disk, and a far end that plays their actors by the form that it is asked for."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import yaml

from trialrun.app.studies import Plan, load
from trialrun.core.calls import Call
from trialrun.store.archive import Archive
from trialrun.testing.scripted import Scripted

Data = dict[str, Any]
NAMES = ("ant", "bee", "cat")
SCENARIO: Data = {
    "name": "A shared well",
    "description": "Three neighbours share a well.",
    "system_prompt": "Speak plainly.",
    "initial_world_state": "The well is half full. Trust: 5",
    "turn_duration": "1 week",
    "turns": 2,
    "actors": list(NAMES),
    "world_state_model": "x/world",
}
TRUST: Data = {
    "trust": {
        "description": "Trust",
        "extraction_method": "regex",
        "pattern": r"trust.*?(\d+)",
        "type": "int",
    }
}

RULES: Data = {
    "validation_model": "x/checker",
    "checks": {
        "actor_decision_consistency": {"severity": "high"},
        "world_state_coherence": {"enabled": False},
        "fair_play": {"description": "Does anybody cheat?", "severity": "low"},
    },
}

TALKATIVE: Data = {
    "enable_bilateral_communication": True,
    "enable_coalition_formation": True,
    "enable_public_statements": True,
    "max_communications_per_turn": 1,
}


def actor(name: str, **changes: Any) -> Data:
    return {
        "name": f"The {name.title()}",
        "short_name": name,
        "llm_model": f"x/{name}",
        "goals": [f"goal of {name}"],
        "private_information": f"SECRET-OF-{name.upper()}",
        **changes,
    }


def write_world(
    folder: Path,
    *,
    scenario: Data | None = None,
    actors: Mapping[str, Data] | None = None,
    metrics: object = None,
    events: Sequence[Data] = (),
    rules: Data | None = None,
    background: Mapping[str, str] | None = None,
) -> Path:
    """A scenario's folder; what is not given is the shared well."""
    entry = {**SCENARIO, **(scenario or {})}
    (folder / "actors").mkdir(parents=True, exist_ok=True)
    files: dict[str, object] = {"scenario.yaml": entry}
    for name in entry["actors"]:
        files[f"actors/{name}.yaml"] = actor(name, **(actors or {}).get(name, {}))
    files["metrics.yaml"] = {"metrics": TRUST if metrics is None else metrics}
    if events:
        files["exogenous-events.yaml"] = {"exogenous_events": list(events)}
    if rules:
        files["validation-rules.yaml"] = rules
    for path, data in files.items():
        (folder / path).write_text(yaml.safe_dump(data, sort_keys=False), encoding="utf-8")
    for name, text in (background or {}).items():
        (folder / "background").mkdir(exist_ok=True)
        (folder / "background" / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def plan_for(home: Path, *, lane: Any = "live", overrides: Data | None = None, **study: Any) -> Plan:
    """The plan of a study that runs the scenario in `home/well`."""
    document = {"study": "well", "procedure": "scenario", "settings": {"world": "well"}, "seed": 1, **study}
    file = home / "study.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return load(file, lane=lane, overrides=overrides)


def a_world(home: Path, *, study: Data | None = None, lane: Any = "live", **world: Any) -> Plan:
    write_world(home / "well", **world)
    return plan_for(home, lane=lane, **(study or {}))


Lines = Callable[[Call, Mapping[str, Any]], Data]


def cast_of(lines: Lines | None = None) -> Scripted:
    """Plays everybody. `lines` may answer some keys of a form; the rest is made up, in the same way each time."""

    def answer(call: Call) -> str:
        schema = cast("Mapping[str, Any]", call.request.schema)
        given = lines(call, schema["properties"]) if lines else {}
        made = {key: given.get(key, _made(call, key, rules)) for key, rules in schema["properties"].items()}
        return msgspec.json.encode(made).decode()

    return Scripted(answer)


def _made(call: Call, key: str, rules: Mapping[str, Any]) -> object:
    if key == "world_state":
        return f"The world after turn {call.turn}. Trust: {call.turn + 4}"
    if key == "issues":
        return []
    match rules:
        case {"enum": [first, *_]}:
            return first
        case {"type": "boolean"}:
            return False
        case {"type": "array"}:
            return [f"{key} of {call.party} in turn {call.turn}"]
        case {"type": "integer" | "number"}:
            return 1
        case _:
            return f"{key} of {call.party} in turn {call.turn}"


def prompts_of(provider: Scripted, *parties: str) -> list[str]:
    """Everything that these parties were sent; all of them if none is named."""
    return [
        "\n".join(message.text for message in call.request.messages)
        for call in provider.calls
        if not parties or call.party in parties
    ]


def measured(plan: Plan) -> dict[str, Any]:
    """The last value of each measure."""
    with Archive(plan.folder) as archive:
        return {row.name: row.value for row in archive.measures()}


def notes(plan: Plan) -> dict[str, str]:
    with Archive(plan.folder) as archive:
        return {row.name: row.note for row in archive.measures()}


def talkative(call: Call, form: Mapping[str, Any]) -> Data:
    """Everybody contacts the next one, and proposes a coalition of all three; all of them accept."""
    others = [name for name in NAMES if name != call.party]
    mark = f"{call.party}-{call.turn}"
    if "contact" in form:
        return {"contact": True, "to": others[0], "message": f"PRIVATE-{mark}"}
    if "propose" in form:
        return {"propose": call.party == "ant", "members": others, "purpose": f"COALITION-{mark}"}
    if "statement" in form:
        return {"speak": True, "statement": f"PUBLIC-{mark}"}
    if "reply" in form:
        return {"reply": f"REPLY-{mark}-{call.address}!", "notes": f"NOTES-{mark}"}
    return {"accept": True} if "accept" in form else {}
