"""The study file as data models: every key, its type, its bounds and its description.

The models say what one value may be; what values mean together is in `core.reading.rules`, factors are in
`core.reading.factors`. The
descriptions are the text of the JSON Schema that editors read.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from trialrun.core.identity import REPLICATE_LIMIT

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,39}$"
MODEL_PATTERN = r"^[^/\s]+/\S+$"
STUDY_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$"

Name = Annotated[str, Field(pattern=NAME_PATTERN)]
Model = Annotated[str, Field(pattern=MODEL_PATTERN, examples=["openai/gpt-5-mini"])]
Values = dict[str, Any]
Character = Annotated[
    Values,
    # A name or a file becomes a map before this model sees it; an editor must take all three.
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1}, {"type": "object"}]}),
]


def _money(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise PydanticCustomError("money", "must be an amount in USD")
    try:
        amount = Decimal(str(value).strip().removeprefix("$").replace(",", ""))
    except InvalidOperation:
        raise PydanticCustomError("money", "must be an amount in USD") from None
    if not amount.is_finite() or amount < 0:
        raise PydanticCustomError("money", "must be an amount in USD, not below 0")
    return amount


Money = Annotated[
    Decimal,
    BeforeValidator(_money),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": 0}, {"type": "string", "pattern": r"^\$?[0-9,]*\.?[0-9]+$"}]}
    ),
]
_LEVELS: dict[str, Any] = {
    "anyOf": [
        {"type": "array", "minItems": 1},
        {"type": "object", "minProperties": 1, "propertyNames": {"minLength": 1}},
    ]
}
_SETS = {"type": "object", "additionalProperties": {"type": "object"}, "minProperties": 1}
FactorForm = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "array",
                    "minItems": 1,
                    "description": "Values of a setting that has the factor's name.",
                },
                {
                    "type": "object",
                    "description": "Named levels; each says what it sets at which dotted paths.",
                    "properties": {
                        "levels": {**_SETS, "description": "Level name → {dotted path: value}."},
                        "values": {
                            "type": "object",
                            "description": "Level name → what a procedure sees as `trial.condition[factor]`.",
                        },
                    },
                    "required": ["levels"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "description": "One level for each entry of a file.",
                    "properties": {
                        "from": {"type": "string", "description": "Lines (.txt), .yaml or .jsonl."},
                        "to": {
                            "type": "string",
                            "description": "Dotted path; settings.<factor> if left out.",
                        },
                        "where": {
                            "type": "object",
                            "description": "Field → the value, or list of values, that an entry must have.",
                        },
                        "first": {"type": "integer", "minimum": 1, "description": "So many, from the top."},
                    },
                    "required": ["from"],
                    "additionalProperties": False,
                },
                {
                    "type": "object",
                    "description": "Dotted path → list of values, or level name → value; several paths vary together.",
                    "patternProperties": {r"^(parties|settings|judges)\.|^procedure$": _LEVELS},
                    "additionalProperties": False,
                    "minProperties": 1,
                },
            ]
        }
    ),
]
LevelText = Annotated[
    str | int | float | bool | None, Field(description="Name of a level, or its value as the file writes it.")
]
Labels = dict[str, LevelText]
_Labels = list[Labels]


class Entry(BaseModel):
    """Common rules: unknown keys are mistakes, and nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class PartyEntry(Entry):
    """Who speaks: give exactly one of `model`, `human` and `script`, or a method that needs none."""

    model: Model | None = Field(None, description="Model as provider/model, such as openai/gpt-5-mini.")
    human: Literal[True] | None = Field(None, description="A person answers; the trial waits for them.")
    script: list[str] | None = Field(None, min_length=1, description="Fixed lines, said one after another.")
    prompt: str | None = Field(
        None,
        description="Instructions as a text or a file (.md, .txt, .j2); a Jinja2 template over `values`.",
    )
    values: Values | None = Field(None, description="What the prompt may name as {{ key }}.")
    method: str | None = Field(
        None,
        min_length=1,
        description="How the party acts, where the procedure offers several ways: a name, or ./file.py:Name.",
    )
    character: Character | None = Field(
        None, description="Whom it plays: the name of a built-in character, a file (.yaml, .json), or a map."
    )
    style: str | None = Field(None, min_length=1, description="How the character talks; known to the method.")
    temperature: float | None = Field(None, ge=0, le=2, description="Left to the provider when not given.")
    top_p: float | None = Field(None, gt=0, le=1, description="Left to the provider when not given.")
    max_tokens: int | None = Field(
        None, ge=1, description="Most tokens of one reply, reasoning included; 1024."
    )
    stop: list[str] | None = Field(None, description="Texts at which the model stops.")
    params: Values | None = Field(
        None, description="Further fields for the provider's request, sent as they are."
    )


class JudgeEntry(Entry):
    """A model that puts a label or a score on a finished trial, or abstains."""

    model: Model | None = Field(None, description="Model as provider/model.")
    question: str | None = Field(
        None, description="What the judge decides, as a text or a file (.md, .txt, .j2)."
    )
    labels: list[str] | None = Field(None, min_length=2, description="The answers that it may give.")
    scale: list[int] | None = Field(None, min_length=2, max_length=2, description="Lowest and highest score.")
    temperature: float | None = Field(
        0.0, ge=0, le=2, description="0 unless given; null leaves it to the provider."
    )
    max_tokens: int | None = Field(None, ge=1, description="Most tokens of one verdict; 512.")
    params: Values | None = Field(
        None, description="Further fields for the provider's request, sent as they are."
    )


class DesignEntry(Entry):
    """How levels meet. Without it all factors are crossed."""

    zip: list[list[Name]] | None = Field(None, description="Groups of factors whose levels advance together.")
    exclude: list[Labels] | None = Field(
        None, description="Conditions to leave out; a partial map matches all."
    )
    include: list[Labels] | None = Field(None, description="Conditions to add, whatever else says.")
    order: list[list[str]] | None = Field(
        None,
        description="Order of factors and levels in tables, as [factor, level, ...].",
    )
    list: "_Labels | None" = Field(None, description="Exactly these conditions, in place of the crossing.")


class BudgetEntry(Entry):
    """Caps in USD; what is not given is not capped."""

    study: Money | None = Field(None, description="All trials together.")
    condition: Money | None = Field(None, description="All trials of one condition together.")
    trial: Money | None = Field(None, description="One trial.")


class RateEntry(Entry):
    """What the account allows for one model pattern."""

    requests_per_minute: int | None = Field(None, ge=1, description="Requests per minute.")
    tokens_per_minute: int | None = Field(None, ge=1, description="Tokens per minute, in and out.")
    in_flight: int | None = Field(None, ge=1, description="Requests at the same time.")


class LimitsEntry(Entry):
    """How far and how fast the study may go. None of these changes what a trial is."""

    open_trials: int | None = Field(None, ge=1, description="Trials side by side; 50.")
    call_timeout_s: float | None = Field(None, gt=0, description="Seconds for one attempt of a call; 300.")
    turn_timeout_s: float | None = Field(None, gt=0, description="Seconds for one turn; none.")
    trial_timeout_s: float | None = Field(
        3600.0, gt=0, description="Seconds for one trial; 3600, null for none."
    )
    call_attempts: int | None = Field(None, ge=1, description="Attempts of one call; 6.")
    identical_failures: int | None = Field(
        None, ge=1, description="So many equal failures in a row, with no success between, stop the study; 8."
    )
    rates: dict[str, RateEntry] | None = Field(
        None, description="Model pattern (openai/*) → what is allowed."
    )


class TokenRates(Entry):
    """USD per million tokens."""

    input: Money = Field(description="Tokens that the model reads.")
    output: Money = Field(description="Tokens that it writes, reasoning included.")
    cached_input: Money | None = Field(
        None, description="Tokens read from the provider's cache; as input unless given."
    )
    cache_write: Money | None = Field(
        None, description="Tokens written to the provider's cache; as input unless given."
    )
    reasoning: Money | None = Field(
        None, description="Tokens of reasoning, where they have a rate of their own; as output unless given."
    )


class TierEntry(TokenRates):
    """USD per million tokens for the whole of a call that reads many."""

    above: int = Field(ge=1, description="These rates hold for a call with more input tokens than this.")


def _apart(tiers: list[TierEntry]) -> list[TierEntry]:
    if len({tier.above for tier in tiers}) < len(tiers):
        raise PydanticCustomError("same_tier", "must have another `above` in each tier")
    return tiers


class BatchRateEntry(TokenRates):
    """USD per million tokens in a batch."""

    tiers: Annotated[list[TierEntry], AfterValidator(_apart)] | None = Field(
        None, description="Rates of calls that read many tokens."
    )


class PriceEntry(BatchRateEntry):
    """USD per million tokens."""

    batch: BatchRateEntry | None = Field(
        None, description="The rates in a batch; the provider's published discount unless given."
    )


class BatchEntry(Entry):
    """How the batch lane packs calls and waits for them."""

    requests: int | None = Field(None, ge=1, description="Most calls in a batch; the provider's limit.")
    queued_tokens: int | None = Field(
        None, ge=1, description="So many input tokens of one model may wait at the provider; no limit."
    )
    flush_s: float | None = Field(
        None, gt=0, description="A batch that is not full leaves when its oldest call has waited so long; 60."
    )
    poll_s: float | None = Field(None, gt=0, description="Longest pause between two looks at a batch; 60.")
    deadline_h: float | None = Field(
        None,
        gt=0,
        description="So many hours after the first batch left, what is still out is pulled out; never.",
    )
    then: Literal["live", "wait"] | None = Field(
        None, description="What becomes of the rest: it goes live, or waits for the next run; live."
    )


class RehearsalEntry(Entry):
    """How the rehearsal lane plays the models that it stands for."""

    speed: float | None = Field(
        None, gt=0, description="So many times faster than the model; not given: no waiting."
    )
    errors: float | None = Field(None, ge=0, le=1, description="Share of attempts that fail; 0.")
    words: float | None = Field(None, gt=0, description="Scales the length of replies; 1.")


def _budget(value: object) -> object:
    return {"study": value} if isinstance(value, str | int | float | Decimal) else value


class TrialPart(Entry):
    """The keys of a study file that reach a trial; a factor may vary anything in them."""

    procedure: str | None = Field(
        None, min_length=1, description="What happens in a trial: a built-in name, or ./file.py:Name."
    )
    parties: dict[Name, PartyEntry] | None = Field(None, description="Who takes part, by name.")
    settings: Values | None = Field(None, description="The procedure's own keys.")
    judges: dict[Name, JudgeEntry] | None = Field(
        None, description="Models that rate finished trials, by name."
    )


class StudyFile(TrialPart):
    """A study: what is varied, how often each condition is repeated, and what happens in one trial."""

    model_config = ConfigDict(title="Trialrun study", extra="forbid", strict=True, frozen=True)

    study: str = Field(pattern=STUDY_PATTERN, description="Name of the study, and of its folder.")
    question: str | None = Field(None, description="What the study asks, in one sentence.")
    factors: dict[Name, FactorForm] | None = Field(None, description="What is varied on purpose, by name.")
    design: DesignEntry | None = Field(None, description="How levels meet; crossed unless said here.")
    replicates: int | None = Field(None, ge=1, le=REPLICATE_LIMIT, description="Trials per condition; 1.")
    measures: list[str] | None = Field(
        None,
        description="Taken from each trial: a judge, or a measure such as client.words. If left out: all judges.",
    )
    budget_usd: Annotated[
        BudgetEntry | None, BeforeValidator(_budget, json_schema_input_type=Money | BudgetEntry | None)
    ] = Field(None, description="What the study may cost in USD: an amount, or caps by level.")
    limits: LimitsEntry | None = Field(
        None, description="Time limits, attempts, and how much runs side by side."
    )
    prices: dict[str, PriceEntry] | None = Field(None, description="Prices that go before the built-in ones.")
    lane: Literal["live", "batch"] | None = Field(
        None, description="How calls travel unless a run says otherwise: at once, or in half-price batches."
    )
    batch: BatchEntry | None = Field(None, description="How the batch lane packs and waits.")
    rehearsal: RehearsalEntry | None = Field(None, description="How the rehearsal lane behaves.")
    notice: str | None = Field(None, description="Shown in every report.")
    seed: int | None = Field(None, description="Root of all chance; 0.")
    sources: dict[str, str] | None = Field(
        None, description="Written by Trialrun into a resolved file: which text came from which file."
    )


Layout = Mapping[tuple[str, ...], type[Entry]]
"""Which model describes what stands at which path; `*` stands for any name or place."""

TRIAL_KEYS = tuple(TrialPart.model_fields)
STUDY_KEYS = (
    "study",
    "question",
    *(key for key in StudyFile.model_fields if key not in {"study", "question"}),
)
STUDY_LAYOUT: Layout = {
    (): StudyFile,
    ("parties", "*"): PartyEntry,
    ("judges", "*"): JudgeEntry,
    ("design",): DesignEntry,
    ("budget_usd",): BudgetEntry,
    ("limits",): LimitsEntry,
    ("limits", "rates", "*"): RateEntry,
    ("prices", "*"): PriceEntry,
    ("prices", "*", "tiers", "*"): TierEntry,
    ("prices", "*", "batch"): BatchRateEntry,
    ("prices", "*", "batch", "tiers", "*"): TierEntry,
    ("batch",): BatchEntry,
    ("rehearsal",): RehearsalEntry,
}


def entry_at(path: tuple[object, ...], layout: Layout = STUDY_LAYOUT) -> type[Entry] | None:
    """The model of what stands at this path, if its keys are fixed."""
    for pattern, entry in layout.items():
        if len(pattern) == len(path) and all(
            want in ("*", have) for want, have in zip(pattern, path, strict=True)
        ):
            return entry
    return None


def homes_of(key: str, layout: Layout = STUDY_LAYOUT) -> list[str]:
    """Where in a file a key of this name belongs, for people."""
    spelled = {pattern: ".".join("<name>" if part == "*" else part for part in pattern) for pattern in layout}
    return [
        spelled[pattern] or "the top level" for pattern, entry in layout.items() if key in entry.model_fields
    ]


def plain(value: object) -> Any:
    """Validated models as plain data: what was given, without nulls that say nothing."""
    match value:
        case Entry():
            fields = type(value).model_fields
            given = {name: getattr(value, name) for name in fields if name in value.model_fields_set}
            return {
                name: plain(item)
                for name, item in given.items()
                if item is not None or fields[name].default is not None
            }
        case Decimal():
            return f"{value.normalize():f}"
        case dict():
            return {key: plain(item) for key, item in cast("dict[str, object]", value).items()}
        case list():
            return [plain(item) for item in cast("list[object]", value)]
        case _:
            return value


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a study file, for editors."""
    schema = StudyFile.model_json_schema()
    order = {key: schema["properties"][key] for key in STUDY_KEYS if key != "sources"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "properties": {**order, "sources": schema["properties"]["sources"]},
    }
