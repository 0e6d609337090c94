"""The files of a scenario as data models: every key, its type and its bounds.

Spellings that mean the same (`num_turns` and `turns`) are made one before; see `reading`.
"""

from typing import Any, Literal

from pydantic import ConfigDict, Field

from trialrun.core.reading.document import Entry

SHORT_NAME = r"^[a-z][a-z0-9-]{0,39}$"
Severity = Literal["low", "medium", "high"]


class Part(Entry):
    """Unknown keys are found by `reading`, which knows the near miss among the keys of the same file."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class ScenarioEntry(Part):
    """`scenario.yaml`: the situation, its length, and who takes part."""

    name: str = Field(min_length=1)
    description: str = ""
    system_prompt: str = ""
    initial_world_state: str = Field(min_length=10)
    turn_duration: str = Field(min_length=1)
    turns: int | None = Field(None, ge=1)
    scenario_length: dict[str, Any] | None = None
    actors: list[str] = Field(min_length=1)
    world_state_model: str | None = None
    context_window: int = Field(3, ge=1)
    enable_bilateral_communication: bool = False
    enable_coalition_formation: bool = False
    enable_public_statements: bool = False
    communication_types: list[Literal["bilateral", "coalition", "public"]] = Field(
        default_factory=list[Literal["bilateral", "coalition", "public"]]
    )
    max_communications_per_turn: int = Field(2, ge=1)
    enable_black_swans: bool = True
    black_swans: list[dict[str, Any]] = Field(default_factory=list[dict[str, Any]])
    allow_actor_reflection: bool = False
    parallel_action_resolution: Literal[True] = True
    background_information: Any = None
    success_criteria: Any = None
    failure_criteria: Any = None
    # What a file says about itself. It is kept in the archive and reaches nobody.
    schema_version: Any = None
    version: Any = None
    author: Any = None
    tags: Any = None
    features: Any = None


class ActorEntry(Part):
    """`actors/<short-name>.yaml`: one who takes part. Everything but the model is for the actor to read."""

    name: str = Field(min_length=1)
    short_name: str = Field(pattern=SHORT_NAME)
    model: str | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    max_tokens: int | None = Field(None, ge=1)
    control: Literal["ai", "human"] = "ai"
    system_prompt: str = ""
    role: Any = None
    description: Any = None
    goals: Any = None
    constraints: Any = None
    expertise: Any = None
    expertise_level: Any = None
    decision_style: Any = None
    personality_traits: Any = None
    communication_style: Any = None
    preferred_coalitions: Any = None
    private_information: Any = None
    information_access: dict[str, Any] | None = None


class MetricEntry(Part):
    """One metric, in the form to which both documented shapes are brought."""

    name: str = Field(pattern=r"^[A-Za-z0-9_]{1,64}$")
    description: str = ""
    type: Literal["whole", "number", "truth", "label", "text"]
    unit: str = ""
    method: Literal["pattern", "keyword", "model", "manual"]
    pattern: str = ""
    keywords: list[str] = Field(default_factory=list[str])
    scoring: Literal["count", "presence", "density"] = "count"
    prompt: str = ""
    model: str | None = None
    actor_specific: bool = False
    actor: str | None = None
    range: list[float | int] | None = Field(None, min_length=2, max_length=2)
    categories: list[str] = Field(default_factory=list[str])
    warning_threshold: float | int | None = None
    critical_threshold: float | int | None = None
    direction: Literal["higher", "lower"] | None = None


class EventEntry(Part):
    """One exogenous event."""

    type: Literal["trend", "random", "conditional", "scheduled"]
    name: str = Field(min_length=1)
    description: str = ""
    effects: Any = None
    turn_range: list[int] | None = Field(None, min_length=2, max_length=2)
    once: bool = True
    frequency: int = Field(1, ge=1)
    probability: float | int = Field(0.0, ge=0, le=1)
    conditions: dict[str, Any] = Field(default_factory=dict[str, Any])
    turn: int | None = Field(None, ge=1)


class CheckEntry(Part):
    """One quality check."""

    enabled: bool = True
    severity: Severity = "medium"
    description: str = ""


class RulesEntry(Part):
    """`validation-rules.yaml`: what is checked, when, and what follows."""

    validation_model: str | None = None
    checks: dict[str, Any] = Field(default_factory=dict[str, Any])
    run_after_each_turn: bool = True
    generate_turn_reports: bool = True
    generate_summary: bool = True
    halt_on_critical: bool = False
    max_issues_before_halt: int | None = Field(None, ge=1)
    report_format: Literal["markdown", "json"] = "markdown"
