"""The nouns of a study, before anything has run: what is varied, how often, and what happens in one trial."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Literal

from trialrun.core import chance, identity

Scalar = str | int | float | bool | None
PartyKind = Literal["model", "human", "script"]
_NOTHING: Mapping[str, object] = MappingProxyType({})  # a factory gives it out: not hashable before 3.12


@dataclass(frozen=True, kw_only=True, slots=True)
class Party:
    """Who speaks: a model with a prompt, a human, or a script."""

    name: str
    kind: PartyKind = "model"
    model: str = ""
    prompt: str = ""
    values: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    method: str = ""
    """How it acts, where the procedure offers several ways; empty: the procedure's own choice."""
    character: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    """Whom it plays, as plain data. What of it others may know, the procedure says."""
    style: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int = 1024
    stop: tuple[str, ...] = ()
    params: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Judge:
    """A model that puts a label or a score on a finished trial, or abstains."""

    name: str
    model: str
    question: str
    labels: tuple[str, ...] = ()
    scale: tuple[int, int] | None = None
    temperature: float | None = 0.0
    max_tokens: int = 512
    params: Mapping[str, object] = field(default_factory=lambda: _NOTHING)


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """What happens in a trial of one condition: the study with the condition's levels put in."""

    procedure: str
    parties: Mapping[str, Party]
    judges: Mapping[str, Judge]
    settings: Mapping[str, object]
    measures: tuple[str, ...]
    document: Mapping[str, object]
    """The part of the resolved study file that reaches a trial, as plain data."""
    fingerprint: str
    """Digest of `document` and of the procedure's own code: equal fingerprints mean equal requests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """One value of a factor: a label, and what it sets at which dotted paths of the study."""

    label: str
    value: object
    """What a procedure sees as `trial.condition[factor]`: the plain value, or the label of a named level."""
    sets: tuple[tuple[str, object], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Factor:
    """A named thing that is varied on purpose."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One level of each factor."""

    id: str
    levels: Mapping[str, Level]

    def __getitem__(self, factor: str) -> object:
        return self.levels[factor].value

    @property
    def labels(self) -> dict[str, str]:
        return {name: level.label for name, level in self.levels.items()}

    @property
    def title(self) -> str:
        """`tone=warm, model=gpt-5`, for people."""
        return ", ".join(f"{name}={level.label}" for name, level in self.levels.items()) or "(no factors)"


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One replicate of one condition: the unit that runs, fails and resumes."""

    id: str
    condition: Condition
    replicate: int
    spec: Spec
    key: bytes
    """Root of the trial's chance; parties and calls draw from branches of it."""

    @property
    def parties(self) -> Mapping[str, Party]:
        return self.spec.parties

    @property
    def judges(self) -> Mapping[str, Judge]:
        return self.spec.judges

    @property
    def settings(self) -> Mapping[str, object]:
        return self.spec.settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """Caps in USD; a cap that is None does not exist."""

    study_usd: Decimal | None = None
    condition_usd: Decimal | None = None
    trial_usd: Decimal | None = None

    @property
    def has_cap(self) -> bool:
        """Whether there is one at all: then nothing may be asked whose price nobody knows."""
        return any(cap is not None for cap in (self.study_usd, self.condition_usd, self.trial_usd))


@dataclass(frozen=True, kw_only=True, slots=True)
class RateLimit:
    """What one provider account allows for one model pattern (`openai/*`)."""

    model: str
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    in_flight: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How far and how fast a study may go. None of these changes what a trial is."""

    open_trials: int = 50
    call_timeout_s: float = 300.0
    turn_timeout_s: float | None = None
    trial_timeout_s: float | None = 3600.0
    call_attempts: int = 6
    identical_failures: int = 8
    """So many equal failures in a row, with no success between, stop the study."""
    rates: tuple[RateLimit, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Batching:
    """How the batch lane packs, asks and gives up waiting. None of it changes what a trial is."""

    requests: int | None = None
    """Most requests in a pack; None leaves it to the provider's own limit."""
    queued_tokens: int | None = None
    """So many input tokens of one model may wait at the provider at a time; None is no limit of ours."""
    flush_s: float = 60.0
    """A pack that is not full leaves when its oldest call has waited so long."""
    poll_s: float = 60.0
    """The longest pause between two looks at a batch."""
    deadline_s: float | None = None
    """After so long the rest of a batch is pulled out."""
    then: Literal["live", "wait"] = "live"
    """What becomes of the rest: sent live at once, or left for a later run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Price:
    """USD per million tokens."""

    input: Decimal
    output: Decimal
    cached_input: Decimal | None = None
    cache_write: Decimal | None = None
    reasoning: Decimal | None = None
    """Where tokens of reasoning have a rate of their own; they cost what other output does unless given."""
    source: str = "study"
    tiers: "tuple[tuple[int, Price], ...]" = ()
    """Rates that hold for the whole call once it has more than so many input tokens; rising."""
    batch: "Price | None" = None
    """The rates in a batch, where they are stated; the provider's rule says them otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rehearsal:
    """How the rehearsal lane plays the models that it stands for."""

    speed: float | None = None
    """So many times faster than the real model; None does not wait at all."""
    errors: float = 0.0
    """Share of attempts that fail the way the real provider fails now and then."""
    words: float = 1.0
    """Scales the length of replies."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """One declared design with everything that it needs to run."""

    name: str
    question: str = ""
    document: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    """The study file as resolved: prompts and rubrics read in, defaults filled in, plain data."""
    factors: tuple[Factor, ...] = ()
    zips: tuple[tuple[str, ...], ...] = ()
    """Groups of factors whose levels advance together instead of crossing."""
    listed: tuple[Mapping[str, str], ...] = ()
    """If not empty: exactly these conditions, as factor → label, in place of the crossing."""
    included: tuple[Mapping[str, str], ...] = ()
    excluded: tuple[Mapping[str, str], ...] = ()
    replicates: int = 1
    seed: int = 0
    budget: Budget = field(default_factory=Budget)
    limits: Limits = field(default_factory=Limits)
    prices: Mapping[str, Price] = field(default_factory=lambda: MappingProxyType({}))
    rehearsal: Rehearsal = field(default_factory=Rehearsal)
    lane: Literal["live", "batch"] | None = None
    """How its calls travel unless a run says otherwise; live if nobody says."""
    batching: Batching = field(default_factory=Batching)
    notice: str = ""
    notes: tuple[str, ...] = ()
    """What is allowed in the study file and yet odd, for the plan to show."""
    source: str = ""
    """The study file as written, for the archive."""
    home: str = "."
    """Folder that relative paths of the study file start from."""

    @property
    def key(self) -> bytes:
        return chance.study_key(self.seed)

    @property
    def digest(self) -> str:
        """Changes when anything changes that could alter a trial or the set of trials."""
        return identity.digest(self.document)


def trial_of(study: Study, condition: Condition, replicate: int, spec: Spec) -> Trial:
    """The trial that is this replicate of this condition."""
    return Trial(
        id=identity.trial_id(condition.id, replicate),
        condition=condition,
        replicate=replicate,
        spec=spec,
        key=chance.derive(study.key, condition.id, replicate),
    )
