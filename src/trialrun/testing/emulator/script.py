"""The script: how the emulated providers behave, as data, from Python, YAML or JSON.

Everything has a default, so an empty script is a provider on a good day. `docs/emulator.md` lists every key.
"""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import msgspec

from trialrun.core import near
from trialrun.core.errors import UsageError
from trialrun.core.study import Price
from trialrun.testing.emulator.asked import WaitAs
from trialrun.testing.emulator.limits import Limit, Positive, Seconds

Said = Literal[
    "throttled",
    "quota",
    "spend_limit",
    "billing",
    "broken",
    "bad_gateway",
    "unavailable",
    "gateway_timeout",
    "overloaded",
    "redirect",
    "on_hold",
    "revoked",
    "forbidden",
    "unknown_model",
    "refused",
    "too_long",
]
"""The provider says so, in its own words, instead of answering."""
Wire = Literal[
    "dropped_before", "dropped_after", "truncated", "malformed", "slow_body", "silence", "wrong_type"
]
"""The reply is lost or spoiled on its way."""
Ending = Literal["refusal", "length", "empty", "no_usage"]
"""The model answers, in a way that not everybody expects."""
BatchFault = Literal[
    "invalid",
    "enqueued",
    "stuck",
    "slow",
    "stalled",
    "expired",
    "failed",
    "forbidden_output",
    "late_cancel",
    "partly",
    "paused",
    "odd_state",
    "no_counts",
    "other_totals",
    "gone",
]
"""A whole batch goes another way than it should."""
LineFault = Literal["duplicate", "missing", "foreign", "swapped", "unreadable"]
"""A line of a batch's results is not what it should be; its request may fail by what is said, too."""
Fault: TypeAlias = Said | Wire | Ending | BatchFault | LineFault

Step = Literal["reply", "upload", "create", "look", "list", "cancel", "download", "delete", "batch", "line"]
"""What a fault happens to: a live reply, a request about files and batches, a whole batch, one line of it."""

SAID: frozenset[str] = frozenset(get_args(Said))
WIRE: frozenset[str] = frozenset(get_args(Wire))
ENDINGS: frozenset[str] = frozenset(get_args(Ending))
BATCH: frozenset[str] = frozenset(get_args(BatchFault))
LINE: frozenset[str] = frozenset(get_args(LineFault))
STEPS: frozenset[str] = frozenset(get_args(Step))
_UNBILLED = SAID | {
    "dropped_before",
    "invalid",
    "enqueued",
    "failed",
    "forbidden_output",
    "duplicate",
    "foreign",
}
_NEVER_OF_A_LINE = {"bad_gateway", "gateway_timeout", "redirect"}
_FITTING: Mapping[str, frozenset[str]] = {
    "reply": SAID | WIRE | ENDINGS,
    "batch": BATCH,
    "line": (SAID - _NEVER_OF_A_LINE) | ENDINGS | LINE,
}

Count = Annotated[int, msgspec.Meta(ge=0)]
Ordinal = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault, the requests that it may happen to, and how it looks. The first rule that applies is taken."""

    fault: Fault
    name: str = ""
    """As the book tells it; the fault unless given."""
    at: Step | None = None
    """What it happens to; a live reply, or for the faults of batches and lines what they say, unless given."""

    provider: str = "*"
    model: str = "*"
    key: str = "*"
    """Patterns: `gpt-5*`. A key is named, never spelled out."""
    text: str = ""
    """Only requests in which this text occurs."""
    batches: tuple[Ordinal, ...] = ()
    """Only what belongs to these batches of the provider, from 1 in the order of creation."""
    from_s: Seconds = 0.0
    until_s: Seconds = float("inf")
    """Only between these times since the first request."""

    share: Share = 1.0
    """Of the requests that fit, this part, drawn by the seed."""
    nth: tuple[Ordinal, ...] = ()
    """Of the requests that fit, these, from 1."""
    every: Count = 0
    """Each so-manieth of them."""
    first: Count | None = None
    """Only the first so many of them."""
    after: Count = 0
    """Only those after the first so many."""
    attempts: Count | None = None
    """Only the first so many arrivals of one and the same request."""
    times: Count | None = None
    """Not more often than this."""

    after_s: Seconds = 0.0
    """Let this time pass first."""
    status: Annotated[int, msgspec.Meta(ge=100, le=599)] | None = None
    message: str = ""
    wait_s: Seconds | None = None
    """The wait that a 429 or a 5xx asks for."""
    wait_as: WaitAs = "header"
    keep: Share = 0.5
    """The part of the body that a `truncated` or `malformed` reply still has."""
    seconds: Seconds = 5.0
    """How long a `slow_body` takes, `silence` and a pause last, or a batch waits more."""
    errors: Count = 1
    """So many lines are named as the reason why a batch is `invalid`; 0 names none."""
    state: str = ""
    """The provider's word for an `odd_state`."""
    billed: bool | None = None
    """Whether the provider bills the request all the same; as is usual for the fault unless given."""

    @property
    def title(self) -> str:
        return self.name or self.fault

    @property
    def step(self) -> Step:
        """What it happens to."""
        if self.at is not None:
            return self.at
        return "batch" if self.fault in BATCH else "line" if self.fault in LINE else "reply"

    @property
    def is_billed(self) -> bool:
        """Whether a real provider would bill for it: it does once it has produced a reply.

        For a `duplicate`, whether the second one is billed too.
        """
        return self.fault not in _UNBILLED if self.billed is None else self.billed


class Rates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A price of the script's own, in USD per million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    reasoning: Decimal | None = None

    def price(self) -> Price:
        return Price(
            input=self.input,
            output=self.output,
            cached_input=self.cached_input,
            cache_write=self.cache_write,
            reasoning=self.reasoning,
            source="script",
        )


class Batches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long batches take, and how large they may be."""

    validating_s: Seconds = 0.1
    queued_s: Seconds = 0.1
    running_s: Seconds = 0.3
    per_request_s: Seconds = 0.0
    """And so much longer for each request."""
    finalizing_s: Seconds = 0.1
    cancelling_s: Seconds = 0.2
    jitter: Share = 0.2
    """Each of these times is up to this part longer or shorter, drawn by the seed."""
    expires_s: Seconds | None = None
    """What has not run by then never will; the provider's own time unless given."""
    kept_s: Seconds | None = None
    """How long results are kept after they are there; the provider's own time unless given."""
    in_order: bool = False
    """Whether results come in the order of the requests."""
    most_requests: Ordinal | None = None
    most_bytes: Ordinal | None = None
    """Of one batch; the provider's own limits unless given."""
    enqueued_tokens: Ordinal | None = None
    """Input tokens that may wait at one time, for each key and model."""
    shards: Ordinal = 2
    """Into how many files Vertex divides its results."""


class Script(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the emulated providers behave."""

    seed: int = 0
    replies: Literal["rehearsal", "canned"] = "rehearsal"
    """Who answers: the rehearsal lane's generator, or a few texts that cost next to nothing."""
    words: Positive = 1.0
    """Scales the length of replies."""
    latency_s: Seconds = 0.0
    jitter_s: Seconds = 0.0
    """Up to so much more or less than the latency, drawn by the seed."""
    speed: Positive | None = None
    """Instead of a latency: so many times faster than the real model."""
    keys: dict[str, str] = {}
    """Keys by name. If there are any, no other is accepted."""
    models: tuple[str, ...] = ()
    """Patterns. If there are any, no other model is known."""
    snapshots: dict[str, str] = {}
    """The exact name with which a model answers."""
    resamples: bool = True
    """Whether the same question gets another answer each time; one that carries a seed never does."""
    cache: bool = True
    """Whether a repeated prompt prefix is billed as a cached one."""
    strict: bool = True
    """Whether requests are refused that the real provider would refuse."""
    prices: dict[str, Rates] = {}
    """By model or pattern, before the price list."""
    limits: tuple[Limit, ...] = ()
    faults: tuple[Rule, ...] = ()
    batches: Batches = Batches()


def script_from(source: "Script | Mapping[str, object] | Path | str | None") -> Script:
    """A script from wherever it is. Raises UsageError that says which key is wrong."""
    match source:
        case None:
            return Script()
        case Script():
            return source
        case Path() | str():
            return _converted(_read(Path(source)), str(source))
        case _:
            return _converted(source, "script")


def with_seed(script: Script, seed: int | None) -> Script:
    """The script with another seed, if there is one."""
    return script if seed is None else msgspec.structs.replace(script, seed=seed)


def _read(file: Path) -> object:
    import yaml

    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the script cannot be read: {error.strerror}", where=str(file)) from error
    try:
        # JSON is YAML too.
        loaded: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UsageError(
            f"the script is not YAML: {error}", where=str(file), fix="mend the syntax"
        ) from error
    return {} if loaded is None else loaded


def _converted(value: object, where: str) -> Script:
    try:
        script = msgspec.convert(value, Script, strict=True)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        raise UsageError(what, where=f"{where} {place.strip('`')}".rstrip(), fix=_fix(what)) from error
    for number, rule in enumerate(script.faults):
        fitting = _FITTING.get(rule.step, SAID | WIRE)
        if rule.fault not in fitting:
            raise UsageError(
                f"`{rule.fault}` cannot happen at `{rule.step}`",
                where=f"{where} $.faults[{number}]",
                fix=f"choose one of {', '.join(sorted(fitting))}, or another `at`",
            )
    return script


def _fix(what: str) -> str:
    unknown = what.partition("unknown field `")[2].rstrip("`")
    if unknown:
        known = {
            name for struct in (Script, Rule, Limit, Rates, Batches) for name in struct.__struct_fields__
        }
        return (
            near.pick(unknown, sorted(known))
            if near.nearest(unknown, known)
            else "docs/emulator.md lists all keys"
        )
    wrong = what.partition("Invalid enum value '")[2].rstrip("'")
    if wrong:
        return near.pick(wrong, sorted({*SAID, *WIRE, *ENDINGS, *BATCH, *LINE, *STEPS}))
    return "docs/emulator.md lists all keys"
