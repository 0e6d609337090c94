"""What all providers share when they count and read text: the token estimate, and the data in a structured reply."""

from typing import cast

import msgspec

from trialrun.core.calls import Finish, Request
from trialrun.core.errors import ReplyUnreadable
from trialrun.core.json_schema import mistake_in

BYTES_PER_TOKEN = 4
_TOKENS_PER_MESSAGE = 3


def tokens_of(text: str) -> int:
    """About how many tokens a text has; never more than it has bytes."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return -(-size // BYTES_PER_TOKEN)


def tokens_in_of(request: Request) -> int:
    """About how many tokens a request has; less than `core.pricing.most_tokens_in` by construction."""
    return -(-request.size_bytes // BYTES_PER_TOKEN) + _TOKENS_PER_MESSAGE * (len(request.messages) + 1)


def data_of(text: str, finish: Finish, request: Request) -> object:
    """The structured data in a reply to a request with a schema; None without one, or when the model declined."""
    if request.schema is None or finish in ("refusal", "tool"):
        return None
    try:
        data = cast("object", msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        if finish == "length":
            raise _cut(request) from error
        raise ReplyUnreadable(
            f"the reply is not JSON, though a schema was asked for: {error}", text=text
        ) from error
    wrong = mistake_in(data, request.schema)
    if wrong is not None and finish == "length":
        raise _cut(request)  # the arguments of a tool come as a whole object, without what was cut away
    if wrong is not None:
        raise ReplyUnreadable(f"the reply does not fit its schema: {wrong}", text=text)
    return data


def _cut(request: Request) -> ReplyUnreadable:
    """Without a text: to show the model its half answer would bring another that is cut at the same place."""
    return ReplyUnreadable(
        f"the reply was cut at max_tokens ({request.max_tokens}) before its JSON was complete",
        fix="raise `max_tokens`, or ask for less",
    )
