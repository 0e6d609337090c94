"""What every protocol comes down to: a request as asked, an answer to it, and what may be wrong. Data, nothing else."""

from functools import cached_property
from typing import Literal

import msgspec

from trialrun.core.calls import Finish, Message, Request, Usage
from trialrun.providers.schemas import heeded

Kind = Literal[
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
    "unknown_path",
    "unknown_object",
    "conflict",
    "refused",
    "too_long",
    "too_large",
]
"""What a provider says instead of an answer. Each protocol has its own status, body and headers for it."""

WaitAs = Literal["seconds", "date", "milliseconds", "header", "none"]
"""How a 429 tells the time to wait: `header` is the provider's own way, which for Google is the body."""


DEFAULT_MAX_TOKENS = 4096


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A function that the model has to call."""

    name: str
    schema: dict[str, object]


class Asked(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A request, free of its protocol's spelling."""

    provider: str
    model: str
    messages: tuple[Message, ...]
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    schema: dict[str, object] | None = None
    tool: Tool | None = None
    seed: int | None = None
    effort: str = ""
    thinking: int = 0
    """Tokens that the model may think before it answers, where the request says so."""
    count: int = 1
    cache_marks: tuple[int, ...] = ()
    """After so many messages the request asks for a cache entry."""
    given: object = None
    """The body as its protocol decoded it."""

    @property
    def priced_as(self) -> str:
        """The model as price lists and studies name it."""
        return f"{self.provider}/{self.model}"

    @cached_property
    def request(self) -> Request:
        """The request as the core knows it."""
        schema = self.tool.schema if self.tool is not None else self.schema
        params: dict[str, object] = {"reasoning_effort": self.effort} if self.effort else {}
        return Request(
            model=self.priced_as,
            messages=self.messages,
            max_tokens=self.max_tokens or DEFAULT_MAX_TOKENS,
            temperature=self.temperature,
            top_p=self.top_p,
            stop=self.stop,
            schema=heeded(schema) if schema is not None else None,
            params=params,
        )


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the model says. With a forced tool, `text` is the JSON of its arguments."""

    text: str
    usage: Usage
    finish: Finish = "stop"
    more: tuple[str, ...] = ()
    """The texts of further choices."""
    seconds: float = 0.0
    """How long the real model would have taken."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """Why there is no answer."""

    kind: Kind
    message: str = ""
    """In other words than the provider's usual ones."""
    model: str = ""
    param: str = ""
    code: str = ""
    status: int | None = None
    """Another status than the provider's usual one."""
    wait_s: float | None = None
    wait_as: WaitAs = "header"
    limit: str = "requests"
    """What was exceeded: requests or tokens."""
    per: str = "minute"


class Stamp(msgspec.Struct, frozen=True, kw_only=True):
    """What a reply carries beside its content."""

    id: str
    """Thirty-two hexadecimal digits that follow from the seed and the request."""
    at: float
    model: str


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A reply as it goes over the wire."""

    status: int
    body: bytes
    headers: dict[str, str]


class Refusal(Exception):
    """Raised while a request is read: it is wrong, and this is what the provider says to that."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble.message)
        self.trouble = trouble


def refused(message: str, *, param: str = "", code: str = "") -> Refusal:
    """A 400 with these words."""
    return Refusal(Trouble(kind="refused", message=message, param=param, code=code))
