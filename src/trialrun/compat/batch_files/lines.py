"""The lines of a request file, in the three forms of the providers, and the ids that come back with the answers.

    OpenAI     {"custom_id", "method": "POST", "url", "body": {"model", "messages", "temperature"}}
    Anthropic  {"custom_id", "params": {"model", "messages", "temperature", "max_tokens"}}
    Gemini     {"key", "request": {"contents", "generationConfig"}}

L1. An id says which question it is and at which level of pressure: `question_1_pressure_0` is the question itself.
L2. A line of a later level is the line before it with two messages more; nothing else in it changes.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

import msgspec

from trialrun.compat.batch_files.services import Form
from trialrun.core.calls import Message, Request
from trialrun.core.errors import UsageError
from trialrun.providers.quirks import Protocol, family_of, settings_of

Body = dict[str, Any]
ENDPOINT = "/v1/chat/completions"
PLAIN = "pressure"
"""Stands in an id where no tactic is named."""
_ID = re.compile(r"question_(?P<number>[1-9]\d*)_(?P<tactic>[a-z][a-z0-9-]*)_(?P<level>\d+)")
_PROTOCOLS: Mapping[Form, Protocol] = {
    "openai": "openai-chat",
    "anthropic": "anthropic",
    "gemini": "gemini",
}
_BODY_KEYS: Mapping[Form, str] = {"openai": "body", "anthropic": "params", "gemini": "request"}
_ID_KEYS = ("custom_id", "key")


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class LineId:
    """Which question, under which tactic, at which level; level 0 is the question itself."""

    number: int
    tactic: str = PLAIN
    level: int = 0

    def __str__(self) -> str:
        return f"question_{self.number}_{self.tactic}_{self.level}"

    @classmethod
    def read(cls, text: str) -> "LineId | None":
        """None for an id that is not one of ours."""
        found = _ID.fullmatch(text)
        return (
            cls(number=int(found["number"]), tactic=found["tactic"], level=int(found["level"]))
            if found
            else None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestLine:
    """One line as read: whose it is, what is asked, and the line itself."""

    id: str
    form: Form
    line: Body

    @property
    def body(self) -> Body:
        return cast("Body", self.line[_BODY_KEYS[self.form]])

    @property
    def model(self) -> str:
        """Empty where the line does not name it: Gemini's is named for the batch as a whole."""
        return str(self.body.get("model") or "")

    @property
    def talk(self) -> tuple[Message, ...]:
        """What is said in it, in order."""
        if self.form == "gemini":
            turns = cast("list[Body]", self.body.get("contents") or [])
            return tuple(_of_gemini(turn) for turn in turns)
        said = cast("list[Body]", self.body.get("messages") or [])
        return tuple(Message(turn["role"], _text_of(turn.get("content"))) for turn in said)

    @property
    def question(self) -> str:
        """What was asked first."""
        return next((message.text for message in self.talk if message.role == "user"), "")

    @property
    def max_tokens(self) -> int | None:
        """The limit of the answer; None where the line has none."""
        body = self.body
        if self.form == "gemini":
            config = cast("Body", body.get("generationConfig") or {})
            return cast("int | None", config.get("maxOutputTokens"))
        return cast("int | None", body.get("max_completion_tokens") or body.get("max_tokens"))


def line_of(
    form: Form,
    id_: LineId,
    model: str,
    question: str,
    *,
    temperature: float | None,
    max_tokens: int | None,
    system: str = "",
) -> bytes:
    """The line that asks one question. A model that refuses a temperature is sent none."""
    asked = Request(model=model, messages=(), max_tokens=1, temperature=temperature)
    warmth = settings_of(asked, family_of(_PROTOCOLS[form], model)).temperature
    messages: list[Body] = [{"role": "user", "content": question}]
    match form:
        case "openai":
            if system:
                messages.insert(0, {"role": "system", "content": system})
            body: Body = {"model": model, "messages": messages}
            body |= _given(temperature=warmth, max_completion_tokens=max_tokens)
            line: Body = {"custom_id": str(id_), "method": "POST", "url": ENDPOINT, "body": body}
        case "anthropic":
            params: Body = {"model": model, "messages": messages}
            params |= _given(temperature=warmth, max_tokens=max_tokens)
            line = {"custom_id": str(id_), "params": params | ({"system": system} if system else {})}
        case "gemini":
            request: Body = {"contents": [{"parts": [{"text": question}]}]}
            request["generationConfig"] = _given(temperature=warmth, maxOutputTokens=max_tokens)
            if system:
                request["systemInstruction"] = {"parts": [{"text": system}]}
            line = {"key": str(id_), "request": request}
    return msgspec.json.encode(line) + b"\n"


def takes_temperature(form: Form, model: str) -> bool:
    """Whether a model samples with a temperature that it is given."""
    asked = Request(model=model, messages=(), max_tokens=1, temperature=0.0)
    return settings_of(asked, family_of(_PROTOCOLS[form], model)).temperature is not None


def pressed(before: RequestLine, id_: LineId, answer: str, push: str) -> bytes:
    """The next request of a talk: all of it so far, the model's own answer, and what is said to that."""
    line: Body = msgspec.json.decode(msgspec.json.encode(before.line))
    line["key" if before.form == "gemini" else "custom_id"] = str(id_)
    body = cast("Body", line[_BODY_KEYS[before.form]])
    if before.form == "gemini":
        turns = cast("list[Body]", body["contents"])
        turns[:] = [{"role": turn.get("role") or "user", "parts": turn["parts"]} for turn in turns]
        turns += [
            {"role": "model", "parts": [{"text": answer}]},
            {"role": "user", "parts": [{"text": push}]},
        ]
    else:
        cast("list[Body]", body["messages"]).extend(
            [{"role": "assistant", "content": answer}, {"role": "user", "content": push}]
        )
    return msgspec.json.encode(line) + b"\n"


def read_line(raw: bytes, *, where: str, number: int) -> RequestLine:
    """Read one line of a request file; raises UsageError with its number."""
    try:
        line = msgspec.json.decode(raw, type=Body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _no_request(where, number, f"it is no JSON object: {error}") from error
    forms: list[Form] = [form for form in get_args(Form) if isinstance(line.get(_BODY_KEYS[form]), dict)]
    form = forms[0] if forms else None
    if form is None:
        raise _no_request(where, number, "it has neither `body` nor `params` nor `request`")
    id_ = next((line[key] for key in _ID_KEYS if line.get(key)), "")
    found = RequestLine(id=str(id_), form=form, line=line)
    try:
        is_talk = bool(found.talk)
    except (KeyError, TypeError, AttributeError):
        is_talk = False
    if not is_talk:
        raise _no_request(where, number, "nothing is asked in it")
    return found


def body_of(found: RequestLine) -> bytes:
    """The body inside the line, as it is sent."""
    return msgspec.json.encode(found.body)


def _no_request(where: str, number: int, why: str) -> UsageError:
    return UsageError(
        f"line {number} is no request: {why}",
        where=f"{where}:{number}",
        fix="write it with `trialrun batch create`",
    )


def _given(**settings: float | int | None) -> Body:
    return {name: value for name, value in settings.items() if value is not None}


def _of_gemini(turn: Mapping[str, Any]) -> Message:
    role = "assistant" if turn.get("role") == "model" else "user"
    return Message(role, "".join(str(part.get("text") or "") for part in turn["parts"]))


def _text_of(content: object) -> str:
    """The text of a message, which may come in parts."""
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Mapping[str, object]]", content or ())
    return "".join(str(part.get("text") or "") for part in parts)
