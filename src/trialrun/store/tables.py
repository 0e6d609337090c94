"""A study as tables: what one row of each says, and how the facts of a trial become rows.

A row is a named tuple of plain values, so that it goes into a data frame, a CSV file or a template as it is. Missing
is None.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Literal, NamedTuple

from trialrun.core import facts as f
from trialrun.core import identity
from trialrun.core.calls import Finish, SeedState

CallStatus = Literal["open", "waiting", "settled", "released", "in_doubt", "confirmed"]
"""open: it left, and nothing more is known (yet). waiting: for its batch, or in one. in_doubt: it ended, and nobody
knows whether it was billed. confirmed: it was in doubt, and a person looked up what it cost."""


class Message(NamedTuple):
    """Something that a party said. `audience` empty means that everybody heard it."""

    trial: str
    number: int
    turn: int
    party: str
    text: str
    audience: tuple[str, ...]
    call: str
    said_at: float


_SHARE_DIGITS = 12
"""A call's cost is shared out in whole pico-USD."""


class CallAttempt(NamedTuple):
    """One attempt of a call. Superseded ones no longer count for the trial, and still for the money."""

    trial: str
    at: str
    attempt: int
    status: CallStatus
    party: str
    purpose: str
    turn: int
    model: str
    answered_by: str
    ceiling_usd: Decimal | None
    cost_usd: Decimal | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_cached: int | None
    tokens_cache_write: int | None
    tokens_reasoning: int | None
    finish: Finish | None
    latency_s: float | None
    http_status: int | None
    error: str
    reason: str
    unreadable: str
    request_id: str
    priced_by: str
    fingerprint: str
    text: str
    raw: str
    held_at: float
    ended_at: float | None
    superseded: bool
    seed: SeedState
    dropped: str
    """Settings that were not sent, as the model takes none of them, with commas between; empty if all were."""
    tools: str
    """The names of the tools that the reply wishes for, with commas between."""


class Measure(NamedTuple):
    """A value taken from a trial; None is missing, and `note` says why."""

    trial: str
    turn: int
    name: str
    value: str | int | float | bool | None
    source: str
    note: str
    at: str


class Rating(NamedTuple):
    """What a rater answered to one item about one unit; `missing` says why there is no value."""

    trial: str
    """The trial that was rated; empty for a labelled unit of a calibration."""
    judging: str
    rater: str
    repeat: int
    unit: int
    """The number of the subject's turn, from 1; 0 for the whole session."""
    turn: int
    mask: str
    item: str
    value: str | int | float | bool | dict[str, list[str]] | None
    missing: str
    explanation: str
    cost_usd: Decimal | None
    """Its share of what the call cost; None if no call gave it, or if nobody knows the cost."""
    order: int
    labels: tuple[str, ...]
    by: str
    """The trial in which it was given."""
    call: str
    labelled: str
    """The hash of a labelled unit; empty for a trial of the study."""


class State(NamedTuple):
    """The hidden state of a party at one moment."""

    trial: str
    turn: int
    party: str
    values: dict[str, object]
    at: str


class Artefact(NamedTuple):
    """Something kept for a trial under a name; `content` is the hash under which it is stored."""

    trial: str
    turn: int
    name: str
    media_type: str
    size_bytes: int
    content: str
    at: str


class Question(NamedTuple):
    """A question to a human; `answer` is None while it is open."""

    trial: str
    at: str
    turn: int
    party: str
    question: str
    options: tuple[str, ...]
    asked_at: float
    answer: str | None
    by: str
    answered_at: float | None


def in_place(entries: Iterable[f.Entry]) -> list[f.Entry]:
    """In the order of their addresses. Where branches of a trial ran side by side, the order of writing is chance."""
    listed = list(entries)
    if any("." in getattr(entry.fact, "at", "") for entry in listed):
        listed.sort(key=lambda entry: identity.place_of(getattr(entry.fact, "at", "")))
    return listed


def messages(trial: str, entries: Iterable[f.Entry], texts: Mapping[str, str]) -> Iterator[Message]:
    """What was said in a trial, also before it branched off. A text that is not stored any more is empty."""
    number = 0
    for entry in in_place(entries):
        said = entry.fact
        if isinstance(said, f.Said):
            text = texts.get(said.text, "")
            yield Message(trial, number, said.turn, said.party, text, said.audience, said.call, entry.at)
            number += 1


def measures(trial: str, entries: Iterable[f.Entry]) -> Iterator[Measure]:
    """What was measured, in order."""
    for entry in in_place(entries):
        m = entry.fact
        if isinstance(m, f.Measured):
            yield Measure(trial, m.turn, m.name, m.value, m.source, m.note, m.at)


def ratings(
    by: str, entries: Iterable[f.Entry], texts: Mapping[str, str], talks: Mapping[str, int]
) -> Iterator[Rating]:
    """The ratings of one rating trial; none if what it rated has begun anew. `talks` has the generations that count."""
    facts = [entry.fact for entry in entries]
    judges = next((fact for fact in facts if isinstance(fact, f.Judges)), None)
    started = next((fact for fact in facts if isinstance(fact, f.Started)), None)
    if judges is None or started is None:
        return
    if judges.source and talks.get(judges.source) != judges.generation:
        return
    # What was asked again is rated at the same address: the last one counts.
    rated = {fact.at: fact for fact in facts if isinstance(fact, f.Rated)}.values()
    shares = _shares(rated, {fact.at: fact.cost_usd for fact in facts if isinstance(fact, f.Settled)})
    for fact in rated:
        yield Rating(
            trial=judges.source,
            judging=judges.judging,
            rater=started.levels.get("rater", ""),
            repeat=started.replicate,
            unit=fact.unit,
            turn=fact.turn,
            mask=fact.mask,
            item=fact.item,
            value=fact.value,
            missing=fact.missing,
            explanation=texts.get(fact.explanation, ""),
            cost_usd=shares.get(fact.call),
            order=fact.order,
            labels=fact.labels,
            by=by,
            call=fact.call,
            labelled=judges.unit,
        )


def _shares(rated: Iterable[f.Rated], costs: Mapping[str, Decimal | None]) -> dict[str, Decimal | None]:
    """By call: its cost, with that of the answer which it repaired, over the ratings that it gave."""
    given = Counter(fact.call for fact in rated if fact.call)
    shares: dict[str, Decimal | None] = {}
    for call, number in given.items():
        parts = [costs.get(call)] + ([costs.get(call[:-2])] if call.endswith(".r") else [])
        known = [part for part in parts if part is not None]
        whole = sum(known, Decimal(0)) if len(known) == len(parts) else None
        shares[call] = None if whole is None else round(whole / number, _SHARE_DIGITS)
    return shares


def states(trial: str, entries: Iterable[f.Entry]) -> Iterator[State]:
    """The hidden states, in order."""
    for entry in in_place(entries):
        s = entry.fact
        if isinstance(s, f.StateLogged):
            yield State(trial, s.turn, s.party, s.values, s.at)


def artefacts(trial: str, entries: Iterable[f.Entry]) -> Iterator[Artefact]:
    """What was kept, in order."""
    for entry in in_place(entries):
        a = entry.fact
        if isinstance(a, f.ArtefactKept):
            yield Artefact(trial, a.turn, a.name, a.media_type, a.size_bytes, a.content, a.at)


def questions(trial: str, entries: Iterable[f.Entry]) -> list[Question]:
    """What humans were asked, in order, with their answers."""
    asked: dict[str, Question] = {}
    for entry in entries:
        match entry.fact:
            case f.Asked() as q:
                asked[q.at] = Question(
                    trial, q.at, q.turn, q.party, q.question, q.options, entry.at, None, "", None
                )
            case f.Answered() as a if a.at in asked and asked[a.at].answer is None:
                asked[a.at] = asked[a.at]._replace(answer=a.answer, by=a.by, answered_at=entry.at)
            case _:
                pass
    return list(asked.values())


def calls(trial: str, entries: Iterable[f.Entry]) -> Iterator[CallAttempt]:
    """Every attempt, in the order in which they left; takes the facts of all generations of the trial."""
    attempts: list[_Attempt] = []
    open_: dict[tuple[str, int], _Attempt] = {}
    for entry in entries:
        fact = entry.fact
        match fact:
            case f.Held():
                attempt = open_[fact.at, fact.attempt] = _Attempt(trial, fact, entry.at)
                attempts.append(attempt)
            case f.Settled() | f.Released() | f.Doubted():
                if attempt := open_.get((fact.at, fact.attempt)):
                    attempt.ending, attempt.ended_at = fact, entry.at
            case f.Confirmed():
                if attempt := open_.get((fact.at, fact.attempt)):
                    attempt.confirmed = fact
            case f.Superseded():
                for attempt in attempts:
                    attempt.superseded = True
            case _:
                pass
    return (_row_of(attempt) for attempt in attempts)


class _Attempt:
    """The facts of one attempt."""

    __slots__ = ("confirmed", "ended_at", "ending", "held", "held_at", "superseded", "trial")

    def __init__(self, trial: str, held: f.Held, held_at: float) -> None:
        self.trial = trial
        self.held = held
        self.held_at = held_at
        self.ending: f.Settled | f.Released | f.Doubted | None = None
        self.ended_at: float | None = None
        self.confirmed: f.Confirmed | None = None
        self.superseded = False


_NO_SETTLEMENT = f.Settled(at="", attempt=0, cost_usd=None, usage=None)


def _row_of(attempt: _Attempt) -> CallAttempt:
    held, ending, confirmed = attempt.held, attempt.ending, attempt.confirmed
    settled = ending if isinstance(ending, f.Settled) else None
    paid = settled or _NO_SETTLEMENT
    usage = paid.usage
    trouble = ending if isinstance(ending, f.Released | f.Doubted) else None
    return CallAttempt(
        trial=attempt.trial,
        at=held.at,
        attempt=held.attempt,
        status="confirmed" if confirmed else _status_of(held, ending),
        party=held.party,
        purpose=held.purpose,
        turn=held.turn,
        model=held.model,
        answered_by=paid.model,
        ceiling_usd=held.ceiling_usd,
        cost_usd=confirmed.cost_usd if confirmed else paid.cost_usd,
        tokens_in=usage.tokens_in if usage else None,
        tokens_out=usage.tokens_out if usage else None,
        tokens_cached=usage.tokens_cached if usage else None,
        tokens_cache_write=usage.tokens_cache_write if usage else None,
        tokens_reasoning=usage.tokens_reasoning if usage else None,
        finish=settled.finish if settled else None,
        latency_s=settled.latency_s if settled else None,
        http_status=trouble.status if isinstance(trouble, f.Released) else None,
        error=trouble.error if trouble else "",
        reason=trouble.reason if trouble else "",
        unreadable=paid.unreadable,
        request_id=paid.request_id,
        priced_by=paid.priced_by,
        fingerprint=held.fingerprint,
        text=paid.text,
        raw=paid.raw,
        held_at=attempt.held_at,
        ended_at=attempt.ended_at,
        superseded=attempt.superseded,
        seed=paid.seed,
        dropped=",".join(paid.dropped),
        tools=",".join(wish.name for wish in paid.tool_calls),
    )


def _status_of(held: f.Held, ending: f.Settled | f.Released | f.Doubted | None) -> CallStatus:
    return "waiting" if ending is None and held.lane == "batch" else _STATUS[type(ending)]


_STATUS: dict[type, CallStatus] = {
    type(None): "open",
    f.Settled: "settled",
    f.Released: "released",
    f.Doubted: "in_doubt",
}
