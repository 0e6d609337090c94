"""What can happen, as data: the journal's vocabulary. Facts are appended and never changed.

A text (an utterance, a prompt, an artefact) is not inside a fact but stored once under its hash; facts name it.
A request is written as the difference to an earlier request of the same trial, so a conversation of n turns takes
O(n) bytes. The order of the facts of one trial is the order in which they happened.
"""

from decimal import Decimal
from typing import Literal

import msgspec

from trialrun.core.calls import Finish, Role, SeedState, Tool, ToolCall, Usage
from trialrun.core.pack_facts import PackFact

Hash = str
Lane = Literal["live", "batch"]
Status = Literal[
    "planned", "running", "parked", "done", "failed", "timed_out", "cancelled", "stopped_by_budget"
]


class _Fact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="fact"):
    """Common shape; every concrete fact has its own tag."""


# --- of the study -------------------------------------------------------------------------------------------------


class Declared(_Fact, frozen=True, tag="declared"):
    """The plan under which the following trials run: as given, and as resolved."""

    digest: str
    version: str
    lane: str
    source: Hash
    document: Hash
    code: dict[str, str]
    """Fingerprint of each procedure that a condition may run."""
    seed: int
    replicates: int
    reason: str = ""
    """What was agreed about trials that ran under the plan before: kept, or redone."""
    overrides: dict[str, object] = {}
    """What flags said: dotted path → value. The resolved document has it already; the file as given has not."""
    trial_usd: Decimal | None = None
    """What the plan expects one trial to cost, with long replies."""


class Opened(_Fact, frozen=True, tag="opened"):
    """A process began to work on the study."""

    session: str
    pid: int
    host: str
    version: str


class Judging(_Fact, frozen=True, tag="judging"):
    """A judging pass: finished trials are rated by a rubric. Declared again when models or repeats are added."""

    id: str
    rubric: str
    source: Hash
    document: Hash
    models: tuple[str, ...]
    repeats: int
    seed: int
    version: str
    forks: bool = False
    """Whether forks are rated too."""
    labelled: Hash = ""
    """Of a calibration: the labelled units that are rated in place of trials."""


class Closed(_Fact, frozen=True, tag="closed"):
    """A process ended its work in good order."""

    session: str
    reason: str
    error: str = ""
    """The kind of error that stopped it (`QuotaExhausted`), if one did."""


# --- of a trial ---------------------------------------------------------------------------------------------------


class Started(_Fact, frozen=True, tag="started"):
    """The trial began: which one it is, and its planned and actual place in the order of the study."""

    condition: str
    levels: dict[str, str]
    replicate: int
    block: int
    planned: int
    actual: int
    spec: str
    session: str = ""


class Forked(_Fact, frozen=True, tag="forked"):
    """This trial branches off `source` before turn `turn`, with some values changed from there on."""

    source: str
    turn: int
    overrides: dict[str, object]


class Judges(_Fact, frozen=True, tag="judges"):
    """This trial rates another one, in a judging pass. It is no trial of the study and counts in no condition."""

    judging: str
    source: str = ""
    generation: int = 0
    """How often the source had begun anew: a source that does so again is another talk, rated by another trial."""
    unit: Hash = ""
    """Of a calibration: the labelled unit, in place of a source."""


class Superseded(_Fact, frozen=True, tag="superseded"):
    """What this trial did so far no longer counts: it starts anew. Its cost stays counted."""

    reason: str


class Retried(_Fact, frozen=True, tag="retried"):
    """An ended trial is taken up again; what it paid for is kept, only what broke is asked again."""

    reason: str


class RequestDelta(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request as the difference to the request at `base`: its first `keep` messages, then `add`."""

    add: list[tuple[Role, Hash]]
    base: str = ""
    keep: int = 0
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    schema: dict[str, object] | None = None
    params: dict[str, object] = {}
    tools: tuple[Tool, ...] = ()


class Held(_Fact, frozen=True, tag="held"):
    """An attempt is about to leave; this much is held for it until its cost is known."""

    at: str
    attempt: int
    model: str
    party: str
    fingerprint: str
    ceiling_usd: Decimal | None
    purpose: str = ""
    turn: int = 0
    request: RequestDelta | None = None
    """Given with the first attempt only; later attempts send the same."""
    lane: Lane = "live"
    """How it is about to leave. In the batch lane it waits for its pack, and has not left before that is created."""


class Settled(_Fact, frozen=True, tag="settled"):
    """An attempt was answered and its cost is known (or known to be unknown: None)."""

    at: str
    attempt: int
    cost_usd: Decimal | None
    usage: Usage | None
    text: Hash = ""
    """The reply's text. Of a reply that could not be used: what the model wrote, if that much could be read."""
    raw: Hash = ""
    """The body as it came, with a hole where the text stands (`core.envelope`)."""
    finish: Finish = "stop"
    model: str = ""
    request_id: str = ""
    latency_s: float = 0.0
    priced_by: str = ""
    unreadable: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    extras: Hash = ""
    """What the server returned beside the message, as JSON; also kept as the artefact `extras:<at>`."""
    seed: SeedState = ""
    dropped: tuple[str, ...] = ()
    """Settings of the request that the model does not take, and that were not sent."""
    pack: str = ""
    """The pack that the reply came with; empty for one that came live."""


class Charged(_Fact, frozen=True, tag="charged"):
    """An attempt that is settled was billed once more: a result that came twice. The first reply stands."""

    at: str
    attempt: int
    cost_usd: Decimal | None
    usage: Usage | None
    reason: str


NEVER_SENT = "NeverSent"
"""Of a released attempt: it waited for a pack that was never built. Its number is free again."""


class Released(_Fact, frozen=True, tag="released"):
    """An attempt failed and was surely not billed; its hold is gone."""

    at: str
    attempt: int
    error: str
    reason: str
    status: int | None = None


class Doubted(_Fact, frozen=True, tag="doubted"):
    """An attempt ended and nobody knows whether it was billed; its hold stays, at the ceiling."""

    at: str
    attempt: int
    error: str
    reason: str


class GaveUp(_Fact, frozen=True, tag="gave_up"):
    """No further attempt was worth it: the call failed, and the procedure was told so."""

    at: str
    error: str
    reason: str


class Confirmed(_Fact, frozen=True, tag="confirmed"):
    """A person looked an attempt in doubt up at the provider: this is what it cost."""

    at: str
    attempt: int
    cost_usd: Decimal
    was_answered: bool = False
    """It was answered at an unknown price, and not lost."""


class Said(_Fact, frozen=True, tag="said"):
    """A party said something; `audience` empty means everybody."""

    at: str
    turn: int
    party: str
    text: Hash
    call: str = ""
    audience: tuple[str, ...] = ()


class Measured(_Fact, frozen=True, tag="measured"):
    """A value was taken from the trial. None is missing, and `note` says why."""

    at: str
    name: str
    value: str | int | float | bool | None
    turn: int = 0
    source: str = "procedure"
    note: str = ""


class Rated(_Fact, frozen=True, tag="rated"):
    """A rater answered one item about one unit, or `missing` says why there is no value (`core.rubric.Rating`)."""

    at: str
    item: str
    value: str | int | float | bool | dict[str, list[str]] | None
    unit: int = 0
    turn: int = 0
    mask: str = ""
    missing: str = ""
    explanation: Hash = ""
    call: str = ""
    order: int = 0
    labels: tuple[str, ...] = ()


class StateLogged(_Fact, frozen=True, tag="state"):
    """The hidden state of a party at this moment."""

    at: str
    turn: int
    party: str
    values: dict[str, object]


class ArtefactKept(_Fact, frozen=True, tag="artefact"):
    """Something kept for the trial under a name."""

    at: str
    name: str
    content: Hash
    media_type: str
    size_bytes: int
    turn: int = 0


class Ticked(_Fact, frozen=True, tag="ticked"):
    """The procedure looked at the clock."""

    at: str
    now: float


class Asked(_Fact, frozen=True, tag="asked"):
    """A question was put to a human."""

    at: str
    turn: int
    party: str
    question: str
    options: tuple[str, ...] = ()


class Answered(_Fact, frozen=True, tag="answered"):
    """The human answered the question at `at`."""

    at: str
    answer: str
    by: str = ""


class ActBegan(_Fact, frozen=True, tag="act_began"):
    """A side effect is about to happen."""

    at: str
    name: str
    turn: int = 0


class ActEnded(_Fact, frozen=True, tag="act_ended"):
    """A side effect is over; this came of it, or this error."""

    at: str
    name: str
    result: object = None
    error: str = ""


class TurnBegan(_Fact, frozen=True, tag="turn"):
    """The next round of the procedure began."""

    at: str
    turn: int


class Waiting(_Fact, frozen=True, tag="waiting"):
    """The trial waits for something slow and holds nothing meanwhile."""

    waiting_for: str


class Finished(_Fact, frozen=True, tag="finished"):
    """The procedure ended by itself."""

    values: dict[str, object]
    end_reason: str


class Failed(_Fact, frozen=True, tag="failed"):
    """The trial broke at a boundary; that is data, and no other trial is touched."""

    boundary: str
    error: str
    reason: str
    at: str = ""


class TimedOut(_Fact, frozen=True, tag="timed_out"):
    """A time limit ended the trial."""

    scope: Literal["turn", "trial"]
    limit_s: float
    reason: str


class Cancelled(_Fact, frozen=True, tag="cancelled"):
    """A user called this trial off."""

    reason: str


class StoppedByBudget(_Fact, frozen=True, tag="stopped_by_budget"):
    """A cap stopped the trial; it is unfinished and goes on when the cap is raised."""

    level: str


StudyFact = Declared | Opened | Judging | Closed | PackFact
TrialFact = (
    Started
    | Forked
    | Judges
    | Superseded
    | Retried
    | Held
    | Settled
    | Charged
    | Released
    | Doubted
    | GaveUp
    | Confirmed
    | Said
    | Measured
    | Rated
    | StateLogged
    | ArtefactKept
    | Ticked
    | Asked
    | Answered
    | ActBegan
    | ActEnded
    | TurnBegan
    | Waiting
    | Finished
    | Failed
    | TimedOut
    | Cancelled
    | StoppedByBudget
)
Fact = StudyFact | TrialFact


class Entry(msgspec.Struct, frozen=True):
    """A fact as the journal holds it: its number, its trial (empty for the study's own) and when it was written."""

    seq: int
    trial: str
    at: float
    fact: Fact


def tag_of(fact: Fact) -> str:
    """The short name of the fact's kind, as stored."""
    return str(type(fact).__struct_config__.tag)
