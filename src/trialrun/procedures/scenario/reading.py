"""From the data of a scenario's folder to a world, with everything that is wrong in it at once.

Both documented shapes of `metrics.yaml` and all spellings that mean the same are brought to one form here. A key that
nobody knows is a mistake; a key that says something about the file itself is kept and reaches nobody.
"""

from collections.abc import Mapping

from trialrun.core.near import pick
from trialrun.core.paths import Path, as_map
from trialrun.procedures.scenario import files
from trialrun.procedures.scenario.conditions import Condition, conditions_in
from trialrun.procedures.scenario.metric_reading import metrics_of
from trialrun.procedures.scenario.notebook import Notebook
from trialrun.procedures.scenario.spelling import (
    HEADINGS,
    KNOWN,
    SAME,
    list_of,
    text_of,
    whole,
)
from trialrun.procedures.scenario.world import RESERVED, Actor, Check, Event, Rules, World

Data = Mapping[str, object]
CHECKS = {
    "actor_decision_consistency": "Does the decision fit the actor's profile, goals and constraints?",
    "world_state_coherence": "Does the new state of the world follow from the old one and from what was done?",
    "information_access_consistency": "Does the decision use anything that the actor could not know?",
}
"""Checks that need no description."""
ACCESS = ("public", "private")
LENGTH = ("type", "turns", "condition")
LENGTHS = ("fixed", "condition")


class Reading:
    """Reads one scenario. `found` is what is wrong; `world` is None if too much is."""

    def __init__(self, data: Data, at: Path) -> None:
        self._notebook = Notebook(at)
        self.found = self._notebook.found
        self.world: World | None = None
        self._data = data
        for key in data:
            if key not in KNOWN:
                self._notebook.wrong((key,), f"a scenario has no `{key}`", pick(key, KNOWN), at_key=True)
        entry = self._notebook.entry(
            files.ScenarioEntry, data.get("scenario"), ("scenario",), SAME["scenario"]
        )
        actors = self._actors(entry)
        if entry is not None and actors:
            self._metrics = metrics_of(
                self._notebook, data.get("metrics"), tuple(actor.name for actor in actors)
            )
            self.world = self._world(entry, actors)

    # --- the parts ----------------------------------------------------------------------------------------------------

    def _world(self, entry: files.ScenarioEntry, actors: tuple[Actor, ...]) -> World | None:
        length = as_map(entry.scenario_length) or {}
        for key in length:
            if key not in LENGTH:
                what = f"`scenario_length` has no key `{key}`"
                path = ("scenario", "scenario_length", key)
                self._notebook.wrong(path, what, pick(key, LENGTH), at_key=True)
        if length.get("type", "fixed") not in LENGTHS:
            path = ("scenario", "scenario_length", "type")
            self._notebook.wrong(
                path, "`type` must be `fixed` or `condition`", "write one of them, or neither"
            )
        turns = entry.turns or whole(length.get("turns"))
        if turns is None:
            self._notebook.wrong(("scenario",), "the scenario has no length", "add `turns: 5`")
            return None
        types = entry.communication_types
        background = self._background(entry)
        self._notebook.check_model(entry.world_state_model, ("scenario", "world_state_model"))
        return World(
            title=entry.name,
            description=entry.description,
            system_prompt=entry.system_prompt,
            opening=entry.initial_world_state.strip(),
            turn_duration=entry.turn_duration,
            turns=turns,
            actors=actors,
            narrator_model=entry.world_state_model or "",
            window=entry.context_window,
            bilateral=entry.enable_bilateral_communication or "bilateral" in types,
            coalitions=entry.enable_coalition_formation or "coalition" in types,
            statements=entry.enable_public_statements or "public" in types,
            talks_per_turn=entry.max_communications_per_turn,
            reflects=entry.allow_actor_reflection,
            background=background,
            metrics=self._metrics,
            events=self._events(entry),
            rules=self._rules(),
            success=self._conditions(entry.success_criteria, ("scenario", "success_criteria")),
            failure=self._conditions(entry.failure_criteria, ("scenario", "failure_criteria")),
            until=self._conditions(length.get("condition"), ("scenario", "scenario_length", "condition")),
        )

    def _actors(self, entry: files.ScenarioEntry | None) -> tuple[Actor, ...]:
        given = as_map(self._data.get("actors")) or {}
        wanted = entry.actors if entry else []
        for index, name in enumerate(wanted):
            if name not in given:
                fix = pick(name, given, otherwise=f"write actors/{name}.yaml")
                self._notebook.wrong(
                    ("scenario", "actors", index), f"there is no file actors/{name}.yaml", fix
                )
            if name in wanted[:index]:
                self._notebook.wrong(
                    ("scenario", "actors", index), f"`{name}` takes part twice", "name it once"
                )
            if name in RESERVED:
                self._notebook.wrong(
                    ("scenario", "actors", index), f"no actor can be called `{name}`", "rename it"
                )
        actors = [self._actor(name, given[name]) for name in sorted(set(wanted) & set(given))]
        return tuple(actor for actor in actors if actor is not None)

    def _actor(self, name: str, data: object) -> Actor | None:
        at: Path = ("actors", name)
        entry = self._notebook.entry(files.ActorEntry, data, at, SAME["actor"])
        if entry is None:
            return None
        if entry.short_name != name:
            what = f"the file actors/{name}.yaml has the short name `{entry.short_name}`"
            self._notebook.wrong((*at, "short_name"), what, "name the file after it")
        self._notebook.check_model(entry.model, (*at, "model"))
        access = as_map(entry.information_access) or {}
        for key in access:
            if key not in ACCESS:
                what = f"`information_access` has no key `{key}`"
                self._notebook.wrong((*at, "information_access", key), what, pick(key, ACCESS), at_key=True)
        texts = _background_of(self._data)
        private = [text for text in list_of(access.get("private")) if str(text) not in texts]
        about = [(heading, text_of(getattr(entry, key))) for key, heading in HEADINGS.items()]
        about.append(("What you have access to and others have not", text_of(private)))
        public = [text_of(entry.role), "" if access.get("public") is True else text_of(access.get("public"))]
        return Actor(
            name=name,
            title=entry.name,
            control=entry.control,
            model=entry.model or "",
            temperature=entry.temperature,
            max_tokens=entry.max_tokens,
            system_prompt=entry.system_prompt.strip(),
            about=tuple((heading, text) for heading, text in about if text),
            public=" ".join(part for part in public if part),
            files=tuple(str(text) for text in list_of(access.get("private")) if str(text) in texts),
        )

    def _background(self, entry: files.ScenarioEntry) -> dict[str, str]:
        texts = _background_of(self._data)
        more = text_of(entry.background_information)
        return {**({"In short": more} if more else {}), **texts}

    def _events(self, scenario: files.ScenarioEntry) -> tuple[Event, ...]:
        given = self._notebook.map_of(self._data.get("exogenous-events"), ("exogenous-events",))
        for key in given:
            if key != "exogenous_events":
                what = f"exogenous-events.yaml has no key `{key}`"
                self._notebook.wrong(("exogenous-events", key), what, "use `exogenous_events`", at_key=True)
        at: Path = ("exogenous-events", "exogenous_events")
        listed = self._notebook.list_of(given.get("exogenous_events"), at)
        places: list[tuple[Path, object]] = [((*at, index), data) for index, data in enumerate(listed)]
        swans = scenario.black_swans if scenario.enable_black_swans else []
        places += [
            (("scenario", "black_swans", i), {"type": "random", **swan}) for i, swan in enumerate(swans)
        ]
        events = [self._event(data, at) for at, data in places]
        known = [event for event in events if event is not None]
        for event in {e.id: e for i, e in enumerate(known) if e.id in {o.id for o in known[:i]}}.values():
            self._notebook.wrong(("exogenous-events",), f"there are two events `{event.id}`", "rename one")
        return tuple(sorted(known, key=lambda event: event.id))

    def _event(self, data: object, at: Path) -> Event | None:
        entry = self._notebook.entry(files.EventEntry, data, at, {})
        if entry is None:
            return None
        if entry.type == "scheduled" and entry.turn is None:
            self._notebook.wrong(at, f"the event `{entry.name}` has no turn", "add `turn: 2`")
        if entry.type == "conditional" and not entry.conditions:
            self._notebook.wrong(
                at, f"the event `{entry.name}` has no conditions", "add `conditions: {trust: '< 3'}`"
            )
        if entry.type == "random" and not entry.probability:
            self._notebook.wrong(at, f"the event `{entry.name}` can never happen", "add `probability: 0.2`")
        first, last = entry.turn_range or (1, None)
        if last is not None and last < first:
            what = f"the event `{entry.name}` ends in turn {last}, before it begins in turn {first}"
            self._notebook.wrong((*at, "turn_range"), what, f"write [{last}, {first}]")
        parts = [entry.description.strip(), text_of(entry.effects)]
        return Event(
            kind=entry.type,
            name=entry.name,
            text="\n".join(part for part in parts if part) or entry.name,
            first=first,
            last=last,
            once=entry.once if entry.type != "trend" else False,
            every=entry.frequency,
            probability=float(entry.probability),
            turn=entry.turn or 0,
            conditions=self._conditions(entry.conditions, (*at, "conditions")),
        )

    def _rules(self) -> Rules:
        given = self._data.get("validation-rules")
        entry = self._notebook.entry(files.RulesEntry, given, ("validation-rules",), {}) if given else None
        if entry is None:
            return Rules()
        self._notebook.check_model(entry.validation_model, ("validation-rules", "validation_model"))
        checks = [self._check(name, data) for name, data in sorted(entry.checks.items())]
        return Rules(
            checks=tuple(check for check in checks if check is not None),
            model=entry.validation_model or "",
            is_each_turn=entry.run_after_each_turn,
            has_turn_reports=entry.generate_turn_reports,
            has_summary=entry.generate_summary,
            halts_on_critical=entry.halt_on_critical,
            most_issues=entry.max_issues_before_halt,
            form=entry.report_format,
        )

    def _check(self, name: str, data: object) -> Check | None:
        at: Path = ("validation-rules", "checks", name)
        entry = self._notebook.entry(files.CheckEntry, data, at, {})
        if entry is None or not entry.enabled:
            return None
        if not entry.description and name not in CHECKS:
            what = f"the check `{name}` does not say what it asks"
            self._notebook.wrong(at, what, "add `description: ...`, or use one of " + ", ".join(CHECKS))
        question = " ".join(part for part in (CHECKS.get(name, ""), entry.description.strip()) if part)
        return Check(id=name, severity=entry.severity, question=question)

    def _conditions(self, given: object, at: Path) -> tuple[Condition, ...]:
        found = conditions_in(given)
        if found is None:
            what = f"`{at[-1]}` is no condition on metrics"
            self._notebook.wrong(at, what, 'write {trust: ">= 7"}, or a list such as [trust >= 7]')
            return ()
        known = [name for metric in self._metrics for name in metric.measures]
        for condition in found:
            if condition.metric not in known:
                what = f"`{at[-1]}` names `{condition.metric}`, which is no metric"
                self._notebook.wrong(
                    at, what, pick(condition.metric, known, otherwise="define it in metrics.yaml")
                )
        return found


def _background_of(data: Data) -> dict[str, str]:
    """The background texts by name; a folder in the folder is part of the name."""
    found: dict[str, str] = {}

    def walk(here: Data, prefix: str) -> None:
        for key in sorted(here):
            below = as_map(here[key])
            if below is not None:
                walk(below, f"{prefix}{key}/")
            else:
                found[f"{prefix}{key}"] = text_of(here[key])

    walk(as_map(data.get("background")) or {}, "")
    return {name: text for name, text in found.items() if text}
