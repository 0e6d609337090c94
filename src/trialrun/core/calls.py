"""What goes to a model and what comes back: Message, Request, Call, Usage, RawReply, Reply.

These are msgspec structs and not dataclasses because they are encoded and hashed for every call; they are frozen and
keyword-only like all data here.
"""

from decimal import Decimal
from functools import cached_property
from typing import Literal

import msgspec

from trialrun.core import identity

Role = Literal["system", "user", "assistant"]
Finish = Literal["stop", "length", "refusal", "tool", "other"]


class Message(msgspec.Struct, frozen=True):
    """One entry of a request, in the role that the asked model sees."""

    role: Role
    text: str


class Request(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The question to a model, free of any provider's spelling. Equal requests have equal fingerprints."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    schema: dict[str, object] | None = None
    params: dict[str, object] = {}

    @cached_property
    def fingerprint(self) -> str:
        return identity.text_hash(identity.canonical(self))

    @cached_property
    def size_bytes(self) -> int:
        """UTF-8 bytes of everything that the model reads."""
        texts = sum(len(message.text.encode("utf-8", "surrogatepass")) for message in self.messages)
        return texts + (len(identity.canonical(self.schema)) if self.schema else 0)


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens as the provider counted them. `tokens_in` includes the cached ones, `tokens_out` the reasoning."""

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_reasoning: int = 0


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request at its place in a trial."""

    trial: str
    condition: str
    address: str
    party: str
    purpose: str
    turn: int
    request: Request
    key: bytes
    """The call's own branch of the trial's chance: a provider seed, a rehearsed reply."""

    @property
    def place(self) -> str:
        """`<trial>/<address>`, as errors and tables name it."""
        return f"{self.trial}/{self.address}"


class RawReply(msgspec.Struct, frozen=True, kw_only=True):
    """What came over the wire, before anybody read it."""

    body: bytes
    status: int = 200
    latency_s: float = 0.0
    request_id: str = ""
    headers: dict[str, str] = {}


class Parsed(msgspec.Struct, frozen=True, kw_only=True):
    """A raw reply as read: the text, why it ended, and structured data where a schema was asked for."""

    text: str
    finish: Finish = "stop"
    model: str = ""
    data: object = None


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer as a procedure sees it. In an f-string it is its text."""

    text: str
    finish: Finish = "stop"
    data: object = None
    model: str = ""
    usage: Usage | None = None
    cost_usd: Decimal | None = None
    address: str = ""

    def __str__(self) -> str:
        return self.text
