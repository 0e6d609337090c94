"""How a lab asks a model: builds the request, finds its reply in the record, or has it asked now through the door.

A reply is found by its address, and only for the very same request (L3 of `bearings`). A structured reply that cannot
be used is asked for once more, at an address of its own (see `repairs`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from trialrun.core import chance
from trialrun.core import errors as e
from trialrun.core import facts as f
from trialrun.core.calls import Call, Message, Reply, Request, Tool
from trialrun.core.state import BATCH
from trialrun.core.study import Party, Spec
from trialrun.engine import repairs, templates
from trialrun.engine.bearings import Bearings
from trialrun.engine.record import what_changed

_PARAMETERS = ("temperature", "top_p", "max_tokens", "stop")
_RECALLED = {
    "Throttled": e.Throttled,
    "Unavailable": e.Unavailable,
    "CallTimedOut": e.CallTimedOut,
    "RequestRefused": e.RequestRefused,
}


# --- what is asked --------------------------------------------------------------------------------------------------


def party_of(spec: Spec, who: str | Party) -> Party:
    """The party that is meant: one of the study, one of the procedure's own, or a model by its name."""
    parties = spec.parties
    name = who if isinstance(who, str) else who.name
    if name in parties:
        return parties[name]
    if isinstance(who, Party):
        return who
    if "/" in who:
        return Party(name=who, model=who)
    raise e.ProcedureError(
        f"there is no party `{who}` in this study",
        fix=f"ask one of {', '.join(sorted(parties))}, or a model by name (`provider/model`)",
    )


def messages_of(prompt: str | Sequence[Message], system: str | None, party: Party) -> tuple[Message, ...]:
    """What the party is asked: its own prompt first, if none is given."""
    if system is None and party.prompt:
        system = templates.render(party.prompt, party.values, where=party.name)
    asked = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
    return (Message("system", system), *asked) if system else asked


def request_of(
    party: Party,
    messages: tuple[Message, ...],
    schema: Mapping[str, object] | None,
    tools: Sequence[Tool],
    params: Mapping[str, object],
) -> Request:
    """The request to this party: its own parameters, and over them those of this call."""
    if party.kind != "model":
        raise e.ProcedureError(
            f"party `{party.name}` is a {party.kind}, not a model",
            fix=f"give `parties.{party.name}` a model, or do not ask it",
        )
    given = {name: params[name] for name in _PARAMETERS if name in params}
    extra = {name: value for name, value in params.items() if name not in _PARAMETERS}
    fields: dict[str, Any] = {
        "temperature": party.temperature,
        "top_p": party.top_p,
        "max_tokens": party.max_tokens,
        "stop": party.stop,
    } | given
    return Request(
        model=party.model,
        messages=messages,
        schema=dict(schema) if schema else None,
        params={**party.params, **extra},
        tools=tuple(tools) or msgspec.UNSET,
        **fields,
    )


# --- what comes back ------------------------------------------------------------------------------------------------


async def ask(at: Bearings, address: str, party: Party, request: Request, purpose: str) -> Reply:
    """The reply to this request at this address, with one repair of a structured one."""
    try:
        return await _reply_at(at, address, party, request, purpose)
    except e.ReplyUnreadable as error:
        if request.schema is None or error.text is None:
            raise
        repair = repairs.repair_of(request, error.text, error.what)
    at.sitting.asked[party.name] = (address, request.messages)
    address = repairs.repair_address(address)
    at.sitting.visited.add(address)
    return await _reply_at(at, address, party, repair, repairs.PURPOSE)


async def _reply_at(at: Bearings, address: str, party: Party, request: Request, purpose: str) -> Reply:
    """The recorded reply to this request, or one that is asked for now."""
    known = _known_reply(at, address, request)
    if known is not None:
        at.sitting.asked[party.name] = (address, request.messages)
        return known
    if at.sitting.mode == "verify":
        raise at.not_recorded(address, f"a call to `{party.name}`")
    return await _ask_now(at, address, party, request, purpose)


def _known_reply(at: Bearings, address: str, request: Request) -> Reply | None:
    record = at.sitting.record
    settled, gave_up = record.replies.get(address), record.gave_up.get(address)
    held = record.requests.get(address)
    if held is not None and held.fingerprint != request.fingerprint:
        at.differs(address, what_changed(record, address, request))
    if settled is not None:
        if settled.unreadable:
            text = record.texts[settled.text] if settled.text else None
            raise e.ReplyUnreadable(settled.unreadable, where=at.place(address), text=text)
        beside = record.texts[settled.extras] if settled.extras else "{}"
        extras = cast("dict[str, object]", msgspec.json.decode(beside))
        return _reply(settled, record.texts[settled.text], extras, request, address)
    if gave_up is not None:
        raise _RECALLED.get(gave_up.error, e.RequestRefused)(gave_up.reason)
    return None


async def _ask_now(at: Bearings, address: str, party: Party, request: Request, purpose: str) -> Reply:
    sitting = at.sitting
    if sitting.is_behind():
        raise e.Parked(BATCH)
    call = Call(
        trial=sitting.trial.id,
        condition=sitting.capped_by,
        address=address,
        party=party.name,
        purpose=purpose,
        turn=sitting.turn,
        request=request,
        key=chance.derive(sitting.trial.key, "call", address),
    )
    delta, texts = sitting.delta_of(party.name, request)
    before = sitting.record.attempts.get(address, 0)
    try:
        answer = await sitting.door.ask(call, attempts_before=before, delta=delta, texts=texts)
    except (e.StudyStop, e.StoreError) as error:
        sitting.stop = error
        raise
    except (e.TrialrunError, e.Parked, e.Drained):
        raise
    except Exception as error:
        raise e.KernelBug(f"{type(error).__name__}: {error}") from error
    sitting.asked[party.name] = (address, request.messages)
    sitting.calls += 1
    return _reply(answer.settled, answer.text, answer.extras, request, address)


def _reply(
    settled: f.Settled, text: str, extras: Mapping[str, object], request: Request, address: str
) -> Reply:
    data: object = None
    if request.schema is not None and settled.finish not in ("refusal", "tool"):
        data = msgspec.json.decode(text.encode())
    return Reply(
        text=text,
        finish=settled.finish,
        data=data,
        model=settled.model,
        usage=settled.usage,
        cost_usd=settled.cost_usd,
        address=address,
        tool_calls=settled.tool_calls,
        extras=dict(extras),
    )
