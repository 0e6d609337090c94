"""How the models behave that the rehearsal lane stands for: speed, length, reasoning, and ways to fail.

Orders of magnitude by family, for planning and for rehearsing failures; not measurements of a provider.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

Failure = Literal["throttled", "broken", "overloaded", "unreachable", "dropped", "silent"]

_MIX: Mapping[Failure, float] = MappingProxyType(
    {
        "throttled": 0.50,
        "broken": 0.12,
        "overloaded": 0.20,
        "unreachable": 0.05,
        "dropped": 0.08,
        "silent": 0.05,
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """One family of models. Lengths and times are medians of log-normal distributions."""

    family: str
    words: float = 110.0
    """Of a free answer; a role scales it."""
    words_spread: float = 0.40
    """Standard deviation of the logarithm: 0.4 puts one reply in ten above 1.7 times the median."""
    first_token_s: float = 0.6
    tokens_per_s: float = 80.0
    time_spread: float = 0.35
    reasoning_tokens: float = 0.0
    """Hidden tokens before a reply at the default effort; 0 for models that do not reason unasked."""
    reasoning_spread: float = 0.6
    failures: Mapping[Failure, float] = field(default_factory=lambda: _MIX)
    """Of the attempts that fail, the share of each way to fail."""
    overloaded_status: int = 503
    names_wait: bool = True
    """Whether a 429 says how long to wait."""
    wait_s: float = 4.0
    refusals: float = 0.10
    cuts: float = 0.10
    """Of `Rehearsal.errors`, the share of paid replies that are a refusal, or end at the token limit."""

    def seconds(self, tokens_out: int, normal: float) -> float:
        """From sending to the last token, at a standard normal draw."""
        return (self.first_token_s + tokens_out / self.tokens_per_s) * math.exp(self.time_spread * normal)


_OPENAI = Profile(family="gpt", words=120, first_token_s=0.6, tokens_per_s=90)
_ANTHROPIC = Profile(
    family="claude", words=130, first_token_s=0.9, tokens_per_s=70, overloaded_status=529, wait_s=8
)
_GEMINI = Profile(family="gemini", words=140, first_token_s=0.7, tokens_per_s=150, names_wait=False)
_OPEN = Profile(family="open weights", words=120, first_token_s=0.5, tokens_per_s=70, wait_s=2)

DEFAULT = Profile(family="unknown")

# The first pattern that fits the name after the provider wins, so the special stands before the general.
_BY_NAME: tuple[tuple[str, Profile], ...] = (
    ("gpt-5*chat*", replace(_OPENAI, family="gpt-5 chat", words=140)),
    ("gpt-5*nano*", replace(_OPENAI, family="gpt-5 nano", words=100, tokens_per_s=150, reasoning_tokens=350)),
    ("gpt-5*mini*", replace(_OPENAI, family="gpt-5 mini", words=115, tokens_per_s=110, reasoning_tokens=300)),
    (
        "gpt-5*pro*",
        replace(_OPENAI, family="gpt-5 pro", tokens_per_s=25, first_token_s=5, reasoning_tokens=2500),
    ),
    (
        "gpt-5*codex*",
        replace(_OPENAI, family="gpt-5 codex", words=160, tokens_per_s=70, reasoning_tokens=600),
    ),
    ("gpt-5*", replace(_OPENAI, family="gpt-5", words=130, tokens_per_s=60, reasoning_tokens=500)),
    ("gpt-4*nano*", replace(_OPENAI, family="gpt-4 nano", words=95, tokens_per_s=150)),
    ("gpt-4*mini*", replace(_OPENAI, family="gpt-4 mini", words=105, tokens_per_s=100)),
    ("gpt-4*", replace(_OPENAI, family="gpt-4")),
    ("gpt-3.5*", replace(_OPENAI, family="gpt-3.5", words=90, tokens_per_s=110)),
    ("gpt-oss*", replace(_OPEN, family="gpt-oss", reasoning_tokens=250, tokens_per_s=150)),
    (
        "o[134]-pro*",
        replace(_OPENAI, family="o pro", tokens_per_s=25, first_token_s=5, reasoning_tokens=2500),
    ),
    ("o[134]-mini*", replace(_OPENAI, family="o mini", tokens_per_s=120, reasoning_tokens=500)),
    ("o[134]*", replace(_OPENAI, family="o", tokens_per_s=70, reasoning_tokens=800)),
    (
        "*claude*haiku*",
        replace(_ANTHROPIC, family="claude haiku", words=115, first_token_s=0.6, tokens_per_s=120),
    ),
    (
        "*claude*opus*",
        replace(_ANTHROPIC, family="claude opus", words=145, first_token_s=1.4, tokens_per_s=45),
    ),
    ("*claude*", replace(_ANTHROPIC, family="claude sonnet")),
    ("*gemini*flash*lite*", replace(_GEMINI, family="gemini flash-lite", words=120, tokens_per_s=220)),
    ("*gemini-2.5-flash*", replace(_GEMINI, family="gemini flash", reasoning_tokens=350)),
    ("*gemini-[3-9]*flash*", replace(_GEMINI, family="gemini flash", reasoning_tokens=400)),
    ("*gemini*flash*", replace(_GEMINI, family="gemini flash, no thinking")),
    (
        "*gemini*pro*",
        replace(_GEMINI, family="gemini pro", first_token_s=1.2, tokens_per_s=80, reasoning_tokens=900),
    ),
    ("*gemini*", _GEMINI),
    ("*gemma*", replace(_OPEN, family="gemma")),
    ("*deepseek*r[0-9]*", replace(_OPEN, family="deepseek reasoner", tokens_per_s=40, reasoning_tokens=900)),
    (
        "*deepseek*reasoner*",
        replace(_OPEN, family="deepseek reasoner", tokens_per_s=40, reasoning_tokens=900),
    ),
    ("*deepseek*", replace(_OPEN, family="deepseek", tokens_per_s=45)),
    ("*qwen*thinking*", replace(_OPEN, family="qwen thinking", reasoning_tokens=800)),
    ("*qwq*", replace(_OPEN, family="qwen thinking", reasoning_tokens=900)),
    ("*qwen*", replace(_OPEN, family="qwen")),
    ("*grok*non-reasoning*", replace(_OPEN, family="grok", tokens_per_s=90)),
    ("*grok*reasoning*", replace(_OPEN, family="grok reasoning", tokens_per_s=90, reasoning_tokens=500)),
    ("*grok-3-mini*", replace(_OPEN, family="grok mini", tokens_per_s=120, reasoning_tokens=400)),
    ("*grok-4*", replace(_OPEN, family="grok reasoning", tokens_per_s=60, reasoning_tokens=600)),
    ("*grok*", replace(_OPEN, family="grok", tokens_per_s=90)),
    ("*magistral*", replace(_OPEN, family="mistral reasoning", reasoning_tokens=600)),
    ("*mistral*", replace(_OPEN, family="mistral")),
    ("*mixtral*", replace(_OPEN, family="mistral")),
    ("*llama*", replace(_OPEN, family="llama", words=110)),
    ("*kimi*thinking*", replace(_OPEN, family="kimi thinking", reasoning_tokens=800)),
    ("*smollm*", replace(_OPEN, family="small local", words=60, first_token_s=0.1, tokens_per_s=60)),
)

_BY_PROVIDER: Mapping[str, Profile] = MappingProxyType(
    {
        "openai": _OPENAI,
        "azure": _OPENAI,
        "anthropic": _ANTHROPIC,
        "google": _GEMINI,
        "gemini": _GEMINI,
        "vertex": _GEMINI,
        "xai": _OPEN,
        "mistral": _OPEN,
        "local": replace(_OPEN, family="local", words=60, first_token_s=0.1, tokens_per_s=60),
    }
)

_EFFORT: Mapping[str, float] = MappingProxyType(
    {"none": 0.0, "minimal": 0.05, "low": 0.4, "medium": 1.0, "high": 2.5, "xhigh": 4.0}
)


@lru_cache(maxsize=1024)
def profile_of(model: str) -> Profile:
    """The profile that plays `provider/name`, or a bare name; a sane default when nobody knows the model."""
    provider, _, rest = model.lower().partition("/")
    name = rest.rpartition("/")[2] if rest else provider
    for pattern, profile in _BY_NAME:
        if fnmatchcase(name, pattern):
            return profile
    return _BY_PROVIDER.get(provider, DEFAULT)


def effort_of(params: Mapping[str, object]) -> float:
    """How much longer than at the default effort a reasoning model thinks."""
    effort = params.get("reasoning_effort")
    if effort is None and isinstance(reasoning := params.get("reasoning"), Mapping):
        effort = reasoning.get("effort")  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]  # plain data
    return _EFFORT.get(effort, 1.0) if isinstance(effort, str) else 1.0
