"""Texts that match a regular expression, for the subset that schemas use; anything else raises `Unsupported`."""

import re
import string
from collections.abc import Callable

from trialrun.providers.rehearsal.dice import Dice

_WORD = string.ascii_lowercase + string.digits + "_"
_ANY = string.ascii_lowercase
_ESCAPES = {
    "d": string.digits,
    "w": string.ascii_lowercase,
    "s": " ",
    "D": _ANY,
    "W": "-",
    "S": _ANY,
    "n": "\n",
    "t": "\t",
}
_SETS = {"d": string.digits, "w": string.ascii_letters + string.digits + "_", "s": " \t\n"}
_PRINTABLE = "".join(chr(code) for code in range(32, 127))
_MOST_REPEATS = 4
_MOST_COUNTED = 1_000
_TRIES = 20


class Unsupported(Exception):
    """The pattern uses what this generator does not know."""


def text_matching(pattern: str, dice: Dice, *, shortest: int = 0, longest: int | None = None) -> str:
    """A text in which the pattern is found, with a length within the bounds."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise Unsupported(pattern) from error
    for attempt in range(_TRIES):
        text = _Writer(pattern, dice, extra=attempt).write()
        if len(text) < shortest and not pattern.endswith("$"):
            text += "".join(dice.pick(_ANY) for _ in range(shortest - len(text)))
        if len(text) < shortest or (longest is not None and len(text) > longest):
            text = _Writer(pattern, dice, extra=0, repeats=shortest if len(text) < shortest else 0).write()
        if shortest <= len(text) and (longest is None or len(text) <= longest) and compiled.search(text):
            return text
    raise Unsupported(pattern)


class _Writer:
    """Reads the pattern from left to right and writes one text for it."""

    def __init__(self, pattern: str, dice: Dice, *, extra: int, repeats: int | None = None) -> None:
        self._pattern = pattern
        self._dice = dice
        self._at = 0
        self._extra = extra
        self._repeats = repeats

    def write(self) -> str:
        text = self._alternatives()
        if self._at != len(self._pattern):
            raise Unsupported(self._pattern)
        return text()

    def _alternatives(self) -> Callable[[], str]:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        if len(branches) == 1:
            return branches[0]
        return lambda: self._dice.pick(branches)()  # noqa: PLW0108 - a new pick each time

    def _sequence(self) -> Callable[[], str]:
        parts = list[Callable[[], str]]()
        while self._peek() not in ("", "|", ")"):
            parts.append(self._repeated(self._atom()))
        return lambda: "".join(part() for part in parts)

    def _repeated(self, atom: Callable[[], str]) -> Callable[[], str]:
        low, high = 1, 1
        match self._peek():
            case "?":
                low, high = 0, 1
            case "*":
                low, high = 0, _MOST_REPEATS + self._extra
            case "+":
                low, high = 1, 1 + _MOST_REPEATS + self._extra
            case "{":
                found = re.compile(r"\{(\d*)(,?)(\d*)\}").match(self._pattern, self._at)
                if not found:
                    raise Unsupported(self._pattern)
                low = int(found[1] or 0)
                high = int(found[3]) if found[3] else low + _MOST_REPEATS + self._extra if found[2] else low
                if max(low, high) > _MOST_COUNTED:
                    raise Unsupported(self._pattern)
                self._at += len(found[0]) - 1
            case _:
                return atom
        self._at += 1
        if self._peek() in ("?", "+"):
            self._at += 1
        if self._repeats is not None:
            count = low if self._repeats == 0 else max(low, min(high, self._repeats) if high != low else low)
            if self._repeats and high >= _MOST_REPEATS + self._extra:
                count = max(low, self._repeats)
            return lambda: "".join(atom() for _ in range(count))
        return lambda: "".join(atom() for _ in range(low + self._dice.below(high - low + 1)))

    def _atom(self) -> Callable[[], str]:
        char = self._take()
        match char:
            case "^" | "$":
                return lambda: ""
            case ".":
                return lambda: self._dice.pick(_ANY)
            case "(":
                return self._group()
            case "[":
                chars = self._set()
                return lambda: self._dice.pick(chars)
            case "\\":
                return self._escape()
            case _:
                return lambda: char

    def _group(self) -> Callable[[], str]:
        if self._peek() == "?":
            found = re.compile(r"\?(?::|P?<[A-Za-z_]\w*>)").match(self._pattern, self._at)
            if not found:
                raise Unsupported(self._pattern)  # look-around, flags, back references
            self._at += len(found[0])
        inside = self._alternatives()
        if self._take() != ")":
            raise Unsupported(self._pattern)
        return inside

    def _escape(self) -> Callable[[], str]:
        char = self._take()
        if char in "bB":
            return lambda: ""
        if char in _ESCAPES:
            chars = _ESCAPES[char]
            return lambda: self._dice.pick(chars)
        if char.isalnum():
            raise Unsupported(self._pattern)
        return lambda: char

    def _set(self) -> str:
        is_negated = self._peek() == "^"
        self._at += is_negated
        chars = ""
        while self._peek() != "]" or not chars:
            char = self._take()
            if char == "\\":
                char = self._take()
                if char in _SETS:
                    chars += _SETS[char]
                    continue
                if char.isalnum() and char not in "nt":
                    raise Unsupported(self._pattern)
                char = _ESCAPES.get(char, char)
            if self._peek() == "-" and self._pattern[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._take()
                if last == "\\":
                    last = self._take()
                if ord(last) - ord(char) > 0xFFF or last < char:
                    raise Unsupported(self._pattern)
                chars += "".join(chr(code) for code in range(ord(char), ord(last) + 1))
            else:
                chars += char
        self._at += 1
        if is_negated:
            chars = "".join(char for char in _WORD + _PRINTABLE if char not in chars)
        if not chars:
            raise Unsupported(self._pattern)
        return chars

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _take(self) -> str:
        char = self._peek()
        if not char:
            raise Unsupported(self._pattern)
        self._at += 1
        return char
