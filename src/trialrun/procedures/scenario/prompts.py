"""The words of a scenario's prompts. What may stand in whose prompt is decided here and in `history`, and nowhere else.

Background and description come first and stay the same from turn to turn, which is what providers' caches like.
"""

from collections.abc import Iterable, Mapping, Sequence

from trialrun.procedures.scenario.history import History, Talk, Turn
from trialrun.procedures.scenario.world import Actor, Metric, World

_NARRATOR = (
    "You are the narrator of a simulation. You decide what follows from what the actors do: plausibly, without taking "
    "sides, and without deciding for any actor."
)
_UPDATE = (
    "Describe the state of the world {duration} later, in full: it takes the place of the state above. Keep its form; "
    "where it has lines such as `Trust: 5`, give each of them again with its new value. Then name the key changes and "
    "the consequences that the actors will have to live with."
)
_KNOWN = "If the text does not say it, answer that it is not known; do not guess."


def sections(*parts: tuple[str, str]) -> str:
    """Headed parts of a prompt; empty ones are left out."""
    return "\n\n".join(f"# {heading}\n{text.strip()}" for heading, text in parts if text.strip())


def listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


# --- who somebody is ------------------------------------------------------------------------------------------------


def actor_system(world: World, actor: Actor, more: str = "") -> str:
    """Everything that is meant for the actor: what it is, wants, knows and may read."""
    own = "\n\n".join(f"## {heading}\n{text}" for heading, text in actor.about)
    instructions = "\n\n".join(
        part for part in (world.system_prompt.strip(), actor.system_prompt, more) if part
    )
    return "\n\n".join(
        part
        for part in (
            f"You play the actor {actor.title} in a simulation. Stay in this part, and act as it would.",
            instructions,
            own,
            _situation(world, _background_for(world, actor)),
        )
        if part
    )


def narrator_system(world: World, more: str = "") -> str:
    """What the narrator knows before the first turn: the situation, and the background that is for everybody."""
    return "\n\n".join(
        part
        for part in (
            _NARRATOR,
            more,
            _situation(world, _background_for(world)),
        )
        if part
    )


def _situation(world: World, background: Mapping[str, str]) -> str:
    actors = [
        f"{actor.title} (`{actor.name}`)" + (f": {actor.public}" if actor.public else "")
        for actor in world.actors
    ]
    texts = "\n\n".join(f"## {name}\n{text}" for name, text in background.items())
    return sections(
        (f"The situation: {world.title}", world.description),
        ("Time", f"One turn stands for {world.turn_duration}. There are at most {world.turns} turns."),
        ("Who takes part", listed(actors)),
        ("Background", texts),
    )


def _background_for(world: World, actor: Actor | None = None) -> dict[str, str]:
    """Texts that somebody names as private are for those who name them, and not for the narrator."""
    private = {name for other in world.actors for name in other.files}
    own = actor.files if actor else ()
    return {name: text for name, text in world.background.items() if name not in private or name in own}


# --- what has happened ----------------------------------------------------------------------------------------------


def briefing(world: World, history: History, turn: Turn, actor: Actor) -> str:
    """The world as this actor knows it now. Nothing of what others decide in this turn is in it."""
    names = titles(world)
    past = [
        turn_text(each, names, own=actor.name, talks=each.talks_of(actor.name))
        for each in history.window(world.window)
    ]
    return sections(
        ("Long ago", history.summary),
        ("What you remember of your own talks then", history.memories.get(actor.name, "")),
        ("The last turns", "\n\n".join(past)),
        ("The world now", history.state),
        ("What happens in this turn", listed(turn.events)),
        ("Said in public in this turn", _said(turn.statements, names)),
        (
            "Your private talks in this turn",
            "\n\n".join(talk_text(t, names) for t in turn.talks_of(actor.name)),
        ),
        ("What you wanted until now", _goals(history, actor.name)),
        ("Now", f"This is turn {turn.number} of at most {world.turns}."),
    )


def turn_text(turn: Turn, names: Mapping[str, str], *, own: str = "", talks: Sequence[Talk] = ()) -> str:
    """A turn that is over, with the private talks that the reader took part in."""
    lines = [f"It happened: {event}" for event in turn.events]
    lines += [f"{names[who]} said in public: {text}" for who, text in turn.statements]
    lines += [talk_text(talk, names) for talk in talks]
    for name, decision in sorted(turn.decisions.items()):
        lines.append(f"{names[name]}{' (you)' if name == own else ''} did: {decision.action}")
    lines += [f"It followed: {change}" for change in turn.changes]
    return f"## Turn {turn.number}\n{listed(lines)}"


def talk_text(talk: Talk, names: Mapping[str, str]) -> str:
    """A private talk, for those who took part."""
    members = ", ".join(names[name] for name in talk.members)
    said = "; ".join(f"{names[who]}: {text}" for who, text in talk.lines)
    return f"In private, {members}: {said}" + (f" ({talk.note})" if talk.note else "")


def titles(world: World) -> dict[str, str]:
    return {actor.name: actor.title for actor in world.actors}


def _said(lines: Sequence[tuple[str, str]], names: Mapping[str, str]) -> str:
    return listed(f"{names[who]}: {text}" for who, text in lines)


def _goals(history: History, actor: str) -> str:
    lines: list[str] = []
    for number, decision in history.goals_of(actor):
        if decision.goals:
            lines.append(f"in the long run, as of turn {number}: {'; '.join(decision.goals)}")
        if decision.priorities:
            lines.append(f"next, as of turn {number}: {'; '.join(decision.priorities)}")
    return listed(lines)


# --- what the world becomes -----------------------------------------------------------------------------------------


def world_update(world: World, history: History, turn: Turn) -> str:
    """What the narrator is asked: no reasons of the actors, no private talk."""
    names = titles(world)
    actions = [f"{names[name]}: {decision.action}" for name, decision in sorted(turn.decisions.items())]
    past = [turn_text(each, names) for each in history.window(world.window)]
    return sections(
        ("Long ago", history.summary),
        ("The last turns", "\n\n".join(past)),
        ("The world before this turn", history.state),
        ("What happens in this turn, whatever the actors do", listed(turn.events)),
        ("Said in public", _said(turn.statements, names)),
        (f"What the actors do in turn {turn.number}, all at the same time", listed(actions)),
        ("Your task", _UPDATE.format(duration=world.turn_duration)),
    )


def metric_question(metric: Metric, text: str) -> str:
    """What a model is asked that takes a metric from a text."""
    unit = f" in {metric.unit}" if metric.unit else ""
    between = f" It lies between {metric.low:g} and {metric.high:g}." if metric.low is not None else ""
    asked = metric.question or f"What is the value of `{metric.name}`? {metric.description}"
    return sections(
        ("The text", text),
        ("Your task", f"Take one value{unit} from the text. {asked.strip()}{between} {_KNOWN}"),
    )
