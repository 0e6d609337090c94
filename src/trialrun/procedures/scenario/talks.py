"""What actors say before they decide: to one other, in a coalition, or to everybody.

All who may speak at the same time are asked at the same time, so nobody's prompt depends on who is listed first.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from trialrun.core.ports import Lab
from trialrun.procedures.scenario import forms
from trialrun.procedures.scenario.history import Talk
from trialrun.procedures.scenario.stage import Stage, texts
from trialrun.procedures.scenario.world import Actor

_NOBODY = "nobody"
_SMALLEST = 3
"""So many members make a coalition; two are a bilateral talk."""


@dataclass(frozen=True, slots=True)
class Contact:
    """One actor's wish to talk to another."""

    sender: str
    to: str
    message: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """One actor's wish to form a coalition."""

    sender: str
    members: tuple[str, ...]
    purpose: str


async def bilateral(lab: Lab, stage: Stage) -> None:
    """Rounds of one message and one reply each; who contacted nobody is not asked again in this turn."""
    asked = stage.by_model()
    for _ in range(stage.world.talks_per_turn):
        if len(stage.world.actors) < 2 or not asked:
            return
        found = await lab.together(*[_wish(stage, actor) for actor in asked])
        contacts = [contact for contact in found if contact is not None]
        replies = await lab.together(*[_reply(stage, contact) for contact in contacts])
        for contact, reply in zip(contacts, replies, strict=True):
            _hear(lab, stage, contact, reply)
        asked = [actor for actor in asked if actor.name in {contact.sender for contact in contacts}]


def _wish(stage: Stage, actor: Actor) -> Callable[[Lab], Awaitable[Contact | None]]:
    others = [other.name for other in stage.world.others(actor)]
    task = (
        "Before you decide you may contact one other actor in private. Nobody else will know. Do you? If so, whom, and "
        f"what do you say? The others are: {', '.join(others)}."
    )

    async def wish(lab: Lab) -> Contact | None:
        if stage.kind_of(actor) == "human":
            to = await stage.ask_person(lab, actor, f"{task} Whom?", _NOBODY, *others)
            if to == _NOBODY:
                return None
            message = await stage.ask_person(lab, actor, f"What do you say to {to}, in private?")
            return Contact(actor.name, to, message)
        data = await stage.ask(lab, actor, task, forms.contact(others), "contact")
        message = str(data["message"]).strip()
        return Contact(actor.name, str(data["to"]), message) if data["contact"] and message else None

    return wish


def _reply(stage: Stage, contact: Contact) -> Callable[[Lab], Awaitable[str]]:
    actor = next(each for each in stage.world.actors if each.name == contact.to)
    sender = next(each.title for each in stage.world.actors if each.name == contact.sender)
    task = f"{sender} contacts you in private and says:\n\n{contact.message}\n\nWhat do you reply?"

    async def reply(lab: Lab) -> str:
        if stage.kind_of(actor) == "script":
            return ""
        if stage.kind_of(actor) == "human":
            return await stage.ask_person(lab, actor, task)
        more = " Your notes about it are for yourself alone."
        data = await stage.ask(lab, actor, task + more, forms.REPLY, "reply")
        if str(data["notes"]).strip():
            lab.state(actor.name, notes=str(data["notes"]).strip(), about=contact.sender)
        return str(data["reply"]).strip()

    return reply


def _hear(lab: Lab, stage: Stage, contact: Contact, reply: str) -> None:
    members = tuple(sorted((contact.sender, contact.to)))
    lines = [(contact.sender, contact.message)] + ([(contact.to, reply)] if reply else [])
    for who, text in lines:
        lab.say(who, text, to=members)
    stage.turn.talks.append(Talk(kind="bilateral", members=members, lines=tuple(lines)))


# --- coalitions -------------------------------------------------------------------------------------------------------


async def coalitions(lab: Lab, stage: Stage) -> None:
    """Whoever is proposed accepts or refuses; with all of them in, each member speaks once, hearing those before."""
    speakers = stage.by_model()
    if len(speakers) < _SMALLEST:
        return
    found = await lab.together(*[_propose(stage, actor, speakers) for actor in speakers])
    wanted = {proposal.members: proposal for proposal in reversed(found) if proposal is not None}
    proposals = [wanted[members] for members in sorted(wanted)]
    answers = await lab.together(*[_answer(stage, p, name) for p in proposals for name in _invited(p)])
    said = iter(answers)
    formed: list[tuple[Proposal, list[str]]] = []
    for proposal in proposals:
        refused = [name for name in _invited(proposal) if not next(said)]
        lab.say(proposal.sender, proposal.purpose, to=proposal.members)
        if refused:
            stage.turn.talks.append(_talk(proposal, (), f"not formed: {', '.join(refused)} refused"))
            continue
        order = list(proposal.members)
        lab.random("coalition").shuffle(order)
        formed.append((proposal, order))
    channels = await lab.together(*[_channel(stage, proposal, order) for proposal, order in formed])
    for (proposal, _), lines in zip(formed, channels, strict=True):
        for who, text in lines:
            lab.say(who, text, to=proposal.members)
        stage.turn.talks.append(_talk(proposal, lines, "formed"))


def _invited(proposal: Proposal) -> list[str]:
    return [name for name in proposal.members if name != proposal.sender]


def _talk(proposal: Proposal, lines: Sequence[tuple[str, str]], note: str) -> Talk:
    first = (proposal.sender, f"I propose a coalition: {proposal.purpose}")
    return Talk(kind="coalition", members=proposal.members, lines=(first, *lines), note=note)


def _propose(
    stage: Stage, actor: Actor, speakers: Sequence[Actor]
) -> Callable[[Lab], Awaitable[Proposal | None]]:
    others = [other.name for other in speakers if other.name != actor.name]
    task = (
        "You may propose a coalition with two or more of the others, in private. It is formed if all whom you name "
        f"accept. Do you? If so, with whom, and for what? The others are: {', '.join(others)}."
    )

    async def propose(lab: Lab) -> Proposal | None:
        if stage.kind_of(actor) == "human":
            listed = await stage.ask_person(lab, actor, f"{task} Name them, with commas, or nobody.")
            named = {name.strip() for name in listed.split(",")} & set(others)
            if len(named) + 1 < _SMALLEST:
                return None
            purpose = await stage.ask_person(lab, actor, "What is the coalition for?")
        else:
            data = await stage.ask(lab, actor, task, forms.proposal(others), "proposal")
            named, purpose = set(texts(data["members"])), str(data["purpose"]).strip()
            if not data["propose"] or len(named) + 1 < _SMALLEST or not purpose:
                return None
        return Proposal(actor.name, tuple(sorted({actor.name, *named})), purpose)

    return propose


def _answer(stage: Stage, proposal: Proposal, name: str) -> Callable[[Lab], Awaitable[bool]]:
    actor = next(each for each in stage.world.actors if each.name == name)
    task = (
        f"`{proposal.sender}` proposes a private coalition of {', '.join(proposal.members)}, for this: "
        f"{proposal.purpose}\n\nIt is formed if all accept. Do you?"
    )

    async def answer(lab: Lab) -> bool:
        if stage.kind_of(actor) == "human":
            accepts, why = await stage.ask_person(lab, actor, task, "yes", "no") == "yes", ""
        else:
            data = await stage.ask(lab, actor, task, forms.ANSWER, "answer")
            accepts, why = bool(data["accept"]), str(data["reason"])
        lab.state(name, accepts=accepts, coalition=list(proposal.members), why=why)
        return accepts

    return answer


def _channel(
    stage: Stage, proposal: Proposal, order: Sequence[str]
) -> Callable[[Lab], Awaitable[list[tuple[str, str]]]]:
    async def channel(lab: Lab) -> list[tuple[str, str]]:
        said: list[tuple[str, str]] = []
        for name in order:
            actor = next(each for each in stage.world.actors if each.name == name)
            heard = "\n".join(f"{who}: {text}" for who, text in said) or "(nobody has spoken yet)"
            task = (
                f"You are in a private coalition of {', '.join(proposal.members)}, formed for this: {proposal.purpose}"
                f"\n\nSaid so far:\n{heard}\n\nWhat do you say to the coalition?"
            )
            if stage.kind_of(actor) == "human":
                said.append((name, await stage.ask_person(lab, actor, task)))
            else:
                data = await stage.ask(lab, actor, task, forms.MESSAGE, "coalition message")
                said.append((name, str(data["message"]).strip()))
        return said

    return channel


# --- in public --------------------------------------------------------------------------------------------------------


async def statements(lab: Lab, stage: Stage) -> None:
    """Everybody may say something to all, and nobody hears the others before speaking."""
    actors = stage.by_model()
    found = await lab.together(*[_statement(stage, actor) for actor in actors])
    for actor, text in zip(actors, found, strict=True):
        if text:
            lab.say(actor.name, text)
            stage.turn.statements.append((actor.name, text))


def _statement(stage: Stage, actor: Actor) -> Callable[[Lab], Awaitable[str]]:
    task = "You may make a public statement before everybody decides. Do you? If so, what do you say?"

    async def statement(lab: Lab) -> str:
        if stage.kind_of(actor) == "human":
            said = await stage.ask_person(lab, actor, f"{task} Answer `nothing` to stay silent.")
            return "" if said.strip().lower() == "nothing" else said.strip()
        data = await stage.ask(lab, actor, task, forms.STATEMENT, "statement")
        return str(data["statement"]).strip() if data["speak"] else ""

    return statement
