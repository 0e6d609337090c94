"""Makes any text safe to print. What a model wrote must not move the cursor, change a colour or set a window title."""

import re
import unicodedata

# Control characters but tab and newline, direction marks that reorder a line, line separators, lone surrogates.
_HOSTILE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_WIDE = frozenset("WF")


def defused(text: str) -> str:
    """The text with everything that a terminal could obey spelled out, `\\x1b` for an escape."""
    if text.isascii() and text.isprintable():
        return text
    return _HOSTILE.sub(_spelled, text.replace("\r\n", "\n"))


def one_line(text: str, most: int = 200) -> str:
    """The text in one line, cut if it is long."""
    line = " ".join(text.split())
    return defused(line if len(line) <= most else line[: most - 1] + "…")


def width_of(text: str) -> int:
    """So many columns does a defused line take on a terminal."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in {"Cf", "Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
