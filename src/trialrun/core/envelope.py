"""A raw reply without its text: the text is stored once, as the utterance that it is, and the body has a hole.

The split is exact: `close(open_(body, text), text)` gives the same bytes back, or the whole body is kept.
"""

import msgspec

_HOLE = b"\x00text\x00"
_FIRST_WORDS = 24


def open_(body: bytes, text: str) -> bytes:
    """The body with a hole where the text stands; the whole body if the text is short or not found as such."""
    if len(text) < len(_HOLE):
        return body
    spelled = msgspec.json.encode(text)[1:-1]
    # Nearly always the first place with its first words is the one; to look for all of a long text takes longer.
    start = body.find(spelled[:_FIRST_WORDS])
    if not body.startswith(spelled, max(start, 0)):
        start = body.find(spelled)
    if start < 0 or _HOLE in body:
        return body
    return body[:start] + _HOLE + body[start + len(spelled) :]


def close(stored: bytes, text: str) -> bytes:
    """The body as it came over the wire."""
    return stored.replace(_HOLE, msgspec.json.encode(text)[1:-1], 1) if _HOLE in stored else stored
