"""One run as files for people: states of the world, actors' turns, private talks. Texts in, Markdown out.

Texts of models stay as they are, but for HTML: a tag in them is shown and never taken for one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from trialrun.procedures.scenario.world import NARRATOR, WORLD, World
from trialrun.store.tables import Message, State

_TAG = re.compile(r"<(?=[A-Za-z/!?])")


def pages(world: World, messages: Sequence[Message], states: Sequence[State]) -> dict[str, str]:
    """The readable files of one run by name, as far as it came."""
    titles = {actor.name: actor.title for actor in world.actors}
    found = {"world-state-000.md": _opening(world)}
    for turn in sorted({message.turn for message in messages if message.turn}):
        said = [message for message in messages if message.turn == turn]
        logged = [state for state in states if state.turn == turn]
        found |= _turn(world, turn, said, logged, titles)
    return found


def _turn(
    world: World, turn: int, said: Sequence[Message], logged: Sequence[State], titles: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    narrated = next((each for each in said if each.party == NARRATOR), None)
    if narrated is not None:
        found[f"world-state-{turn:03d}.md"] = _state(world, turn, narrated.text, said, logged)
    for actor in world.actors:
        decided = next((s for s in logged if s.party == actor.name and "action" in s.values), None)
        if decided is not None:
            public = [each.text for each in said if each.party == actor.name and not each.audience]
            text = _actor(actor.title, actor.name, turn, decided.values, public[:-1])
            found[f"actor-{actor.name}-{turn:03d}.md"] = text
    for audience in sorted({each.audience for each in said if each.audience}):
        kind = "bilateral" if len(audience) == 2 else "coalition"
        name = f"{kind}-{turn:03d}-{'_'.join(audience)}.md"  # short names have hyphens, and no underscore
        lines = [each for each in said if each.audience == audience]
        found[name] = _talk(f"turn {turn}", lines, logged, titles)
    return found


def _opening(world: World) -> str:
    return _page(f"{world.title}: before the first turn", [("", world.opening)])


def _state(world: World, turn: int, text: str, said: Sequence[Message], logged: Sequence[State]) -> str:
    events = [each.text for each in said if each.party == WORLD]
    nothing: dict[str, object] = {}
    told = next((state.values for state in logged if state.party == NARRATOR), nothing)
    title = f"{world.title}: turn {turn} of {world.turns}, {world.turn_duration} each"
    return _page(
        title,
        [
            ("", text),
            ("What happened by itself", listed(events)),
            ("Key changes", listed(texts(told.get("key_changes")))),
            ("Consequences", listed(texts(told.get("consequences")))),
        ],
    )


def _actor(title: str, name: str, turn: int, decided: Mapping[str, object], statements: Sequence[str]) -> str:
    return _page(
        f"{title} (`{name}`): turn {turn}",
        [
            ("Said in public", "\n\n".join(statements)),
            ("Long-term goals", listed(texts(decided.get("long_term_goals")))),
            ("Short-term priorities", listed(texts(decided.get("short_term_priorities")))),
            ("Reasoning", str(decided.get("reasoning", ""))),
            ("Action", str(decided.get("action", ""))),
        ],
    )


def _talk(when: str, lines: Sequence[Message], logged: Sequence[State], titles: Mapping[str, str]) -> str:
    members = lines[0].audience
    who = ", ".join(titles.get(name, name) for name in members)
    head = "Private talk" if len(members) == 2 else "Coalition"
    said = "\n\n".join(f"**{titles.get(line.party, line.party)}**: {line.text}" for line in lines)
    answers = [
        f"{titles.get(state.party, state.party)}: {'accepts' if state.values['accepts'] else 'refuses'}"
        for state in logged
        if "accepts" in state.values and tuple(texts(state.values.get("coalition"))) == tuple(members)
    ]
    return _page(f"{head} in {when}: {who}", [("", said), ("Answers to the proposal", listed(answers))])


def texts(value: object) -> Iterator[str]:
    """The texts of a list that was logged."""
    if isinstance(value, list | tuple):
        yield from (str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def listed(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _page(title: str, parts: Sequence[tuple[str, str]]) -> str:
    body = [f"# {title}"]
    for heading, text in parts:
        if text.strip():
            body.append(f"## {heading}\n\n{text.strip()}" if heading else text.strip())
    return _TAG.sub("&lt;", "\n\n".join(body)) + "\n"
