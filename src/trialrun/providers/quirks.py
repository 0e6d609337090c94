"""What families of models do not take, as data: settings they refuse, structured output, reasoning effort, seeds.

A setting that a model refuses is left out rather than let the call fail, and every reply of such a call says so
(`Parsed.dropped`). A seed that cannot be sent is `unsupported`. `docs/providers.md` shows this table; a test keeps the
two equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from re import compile as compiled
from typing import Literal, cast

from trialrun.core.calls import Request, SeedState

Protocol = Literal["openai-chat", "openai-responses", "anthropic", "gemini"]
SchemaWay = Literal["native", "tool"]
Setting = Literal["temperature", "top_p", "stop", "reasoning_effort"]

SAMPLING: tuple[Setting, ...] = ("temperature", "top_p")
EFFORT = "reasoning_effort"
"""The one name under which `params` sets the reasoning effort, whatever the provider calls it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Family:
    """Models whose whole name matches `pattern`, asked through one protocol."""

    protocol: Protocol
    pattern: str
    drops: tuple[Setting, ...] = ()
    unless_effort: tuple[str | None, ...] = ()
    """With one of these reasoning efforts (None: not set) nothing is dropped."""
    one_of: tuple[Setting, ...] = ()
    """At most one of these may be sent: the first that is set."""
    schema: SchemaWay = "native"
    why: str = ""


_CHAT_5 = r"gpt-5(\.\d)?-chat.*"
_SAMPLES_WITHOUT_REASONING = r"gpt-5\.[1-4](-mini|-nano)?(-20.*)?"
_REASONS = r"(o[134]|gpt-[5-9]).*"

# The first that matches counts.
FAMILIES: tuple[Family, ...] = (
    Family(
        protocol="openai-chat", pattern=_CHAT_5, drops=(EFFORT,), why="does not reason, and samples as set"
    ),
    Family(
        protocol="openai-chat",
        pattern=_SAMPLES_WITHOUT_REASONING,
        drops=SAMPLING,
        unless_effort=(None, "none"),
        why="samples as set while it does not reason: its effort is `none` unless set",
    ),
    Family(
        protocol="openai-chat",
        pattern=_REASONS,
        drops=(*SAMPLING, "stop"),
        why="reasoning models sample in their own way and have no stop words",
    ),
    Family(protocol="openai-chat", pattern=r"(gpt-[34]|chatgpt-).*", drops=(EFFORT,), why="does not reason"),
    Family(
        protocol="openai-chat",
        pattern=r"grok-(2|3|3-fast|.*-non-reasoning)(-latest|-\d{4})?",
        drops=(EFFORT,),
        why="does not reason",
    ),
    Family(
        protocol="openai-chat",
        pattern=r"grok-(4|4(-1)?-fast.*|4\.20.*-reasoning|code-fast.*)(-latest|-\d{4})?",
        drops=("stop", EFFORT),
        why="reasons at an effort of its own, and has no stop words",
    ),
    Family(
        protocol="openai-chat",
        pattern=r"grok-([4-9]|3-mini|code|build).*",
        drops=("stop",),
        why="reasons, and has no stop words",
    ),
    Family(
        protocol="openai-responses",
        pattern=_CHAT_5,
        drops=(EFFORT,),
        why="does not reason, and samples as set",
    ),
    Family(
        protocol="openai-responses",
        pattern=_SAMPLES_WITHOUT_REASONING,
        drops=SAMPLING,
        unless_effort=(None, "none"),
        why="samples as set while it does not reason: its effort is `none` unless set",
    ),
    Family(
        protocol="openai-responses",
        pattern=_REASONS,
        drops=SAMPLING,
        why="reasoning models sample in their own way",
    ),
    Family(
        protocol="openai-responses", pattern=r"(gpt-[34]|chatgpt-).*", drops=(EFFORT,), why="does not reason"
    ),
    Family(
        protocol="anthropic",
        pattern=r"claude-(instant|2|3).*|claude-(opus|sonnet)-4(-0|-20\d{6})?",
        drops=(EFFORT,),
        schema="tool",
        why="older than structured output and effort: a tool that must be used holds structured replies",
    ),
    Family(
        protocol="anthropic",
        pattern=r"claude-opus-4-1(-20\d{6})?|claude-(haiku|sonnet)-4-5(-20\d{6})?",
        drops=(EFFORT,),
        one_of=SAMPLING,
        why="takes a temperature or top_p, not both; has no effort",
    ),
    Family(
        protocol="anthropic",
        pattern=r"claude-[a-z]+-4-[1-6](-20\d{6})?",
        one_of=SAMPLING,
        why="takes a temperature or top_p, not both",
    ),
    Family(
        protocol="anthropic",
        pattern=r".*",
        drops=SAMPLING,
        why="from 4.7 on every model refuses sampling settings, even their defaults",
    ),
    Family(
        protocol="gemini",
        pattern=r"gemini-(1|2).*|gemma.*",
        drops=(EFFORT,),
        why="has a thinking budget (`thinkingConfig`) in place of levels",
    ),
    Family(
        protocol="gemini",
        pattern=r"gemini-(3\.[6-9]|3\.\d\d|[4-9]|3\.5-flash-lite).*",
        drops=SAMPLING,
        why="sampling settings are deprecated: ignored, and errors later on",
    ),
)

LACKS: Mapping[Protocol, tuple[str, ...]] = {
    "openai-chat": (),
    "openai-responses": ("stop", "seed"),
    "anthropic": ("seed",),
    "gemini": (),
}
"""What a protocol has no field for, whatever the model."""

LIMIT_NAMES: Mapping[Protocol, str] = {
    "openai-chat": "max_completion_tokens (most other servers: max_tokens)",
    "openai-responses": "max_output_tokens",
    "anthropic": "max_tokens",
    "gemini": "generationConfig.maxOutputTokens",
}
EFFORT_NAMES: Mapping[Protocol, str] = {
    "openai-chat": "reasoning_effort",
    "openai-responses": "reasoning.effort",
    "anthropic": "output_config.effort",
    "gemini": "generationConfig.thinkingConfig.thinkingLevel",
}

_PLAIN = {protocol: Family(protocol=protocol, pattern=".*") for protocol in LACKS}
_COMPILED = tuple((compiled(family.pattern), family) for family in FAMILIES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What of a request's settings is sent, and the names of what is not."""

    temperature: float | None
    top_p: float | None
    stop: tuple[str, ...]
    effort: str | None
    dropped: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def family_of(protocol: Protocol, name: str) -> Family:
    """The family of a model, by its bare name; one that drops nothing if none is known."""
    lower = name.lower()
    for pattern, family in _COMPILED:
        if family.protocol == protocol and pattern.fullmatch(lower):
            return family
    return _PLAIN[protocol]


def settings_of(request: Request, family: Family) -> Settings:
    """The request's settings as this family takes them."""
    temperature, top_p, stop = request.temperature, request.top_p, request.stop
    effort = cast("str | None", request.params.get(EFFORT))
    if temperature is None and top_p is None and not stop and effort is None:
        return _NOTHING_SET
    given: Mapping[str, object] = {
        "temperature": temperature,
        "top_p": top_p,
        "stop": stop or None,
        EFFORT: effort,
    }
    refused = {name for name in LACKS[family.protocol] if name in given}
    if not family.unless_effort or effort not in family.unless_effort:
        refused.update(family.drops)
    refused.update([name for name in family.one_of if given[name] is not None][1:])
    return Settings(
        temperature=None if "temperature" in refused else temperature,
        top_p=None if "top_p" in refused else top_p,
        stop=() if "stop" in refused else stop,
        effort=None if EFFORT in refused else effort,
        dropped=tuple(name for name, value in given.items() if name in refused and value is not None),
    )


_NOTHING_SET = Settings(temperature=None, top_p=None, stop=(), effort=None)


def seed_state(*, is_sent: bool, backend: str | None = "") -> SeedState:
    """What became of a seed; `backend` is the fingerprint that the provider gave back."""
    if not is_sent:
        return "unsupported"
    return "honoured" if backend else "sent"
