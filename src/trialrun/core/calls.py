"""What goes to a model and what comes back: Message, Request, Call, Usage, RawReply, Reply.

These are msgspec structs and not dataclasses because they are encoded and hashed for every call; they are frozen and
keyword-only like all data here.
"""

from decimal import Decimal
from functools import cached_property
from typing import Literal

import msgspec

from trialrun.core import identity

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "refusal", "tool", "other"]
SeedState = Literal["", "sent", "honoured", "unsupported"]
"""What became of the seed of a call: it was sent; sent, and the provider named the backend that used it (without which
equal seeds promise nothing); not sent, as the model takes none. Empty when nobody said."""


class Tool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a model may ask to be done; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    parameters: dict[str, object] = {}


class ToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model's wish to have a tool used."""

    id: str
    name: str
    arguments: dict[str, object] = {}
    carry: str = ""
    """What the provider wants to see again beside this call, as it came: a signature, the thinking before it."""


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One entry of a request, in the role that the asked model sees.

    An assistant's message may wish for tools; each wish is answered by a message in the role `tool`, whose `answers` is
    the id of the call and whose text is what came of it.
    """

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    answers: str = ""

    @property
    def stored(self) -> str:
        """The message as one text: its words, or, if it is about tools, all of it as JSON."""
        if self.tool_calls or self.answers:
            return identity.canonical(self).decode("utf-8", "surrogatepass")
        return self.text

    @classmethod
    def of(cls, role: Role, stored: str) -> "Message":
        """The message that is stored as this text."""
        if stored.startswith("{"):
            try:
                message = msgspec.json.decode(stored, type=cls)
            except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
                return cls(role, stored)
            if message.role == role and message.stored == stored:
                return message
        return cls(role, stored)


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
    tools: tuple[Tool, ...] | msgspec.UnsetType = msgspec.UNSET
    """Unset and not empty where there are none: such a request is spelled, and so named, as if tools did not exist."""

    @cached_property
    def fingerprint(self) -> str:
        return identity.text_hash(identity.canonical(self))

    @cached_property
    def size_bytes(self) -> int:
        """UTF-8 bytes of everything that the model may read; a free parameter may be something that it does."""
        texts = sum(len(message.stored.encode("utf-8", "surrogatepass")) for message in self.messages)
        return texts + sum(
            len(identity.canonical(each)) for each in (self.schema, self.tools, self.params) if each
        )


class Usage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens as the provider counted them. `tokens_in` includes the cached ones, `tokens_out` the reasoning."""

    tokens_in: int
    tokens_out: int
    tokens_cached: int = 0
    tokens_cache_write: int = 0
    tokens_reasoning: int = 0
    billed_usd: Decimal | None = None
    """What the provider says that it charges for the call, where it says so; it goes before any price."""


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request at its place in a trial."""

    trial: str
    condition: str
    """Whose cap counts it; empty for a fork, which is outside its condition."""
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
    tool_calls: tuple[ToolCall, ...] = ()
    extras: dict[str, object] = {}
    """What the server returned beside the message and no protocol knows, such as feature activations, by name."""
    seed: SeedState = ""
    dropped: tuple[str, ...] = ()
    """Settings that the model does not take, and that were therefore not sent."""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer as a procedure sees it. In an f-string it is its text."""

    text: str
    finish: Finish = "stop"
    data: object = None
    model: str = ""
    usage: Usage | None = None
    cost_usd: Decimal | None = None
    address: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    extras: dict[str, object] = {}

    def __str__(self) -> str:
        return self.text

    @property
    def message(self) -> Message:
        """The reply as an entry of the next request, with the tools that it wishes for."""
        return Message("assistant", self.text, self.tool_calls)
