"""Keys: held where they do not print, taken in turn, and struck out of whatever quotes them.

K1. A key reaches the header of a request and nothing else: no repr, error, log, URL, body or file.
"""

import hashlib
from collections.abc import Iterable, Mapping

from trialrun.core.calls import Call

_MOST_KEYS = 100
_SHORTEST_KEY = 8
"""No provider gives out shorter ones. What servers on one's own machine are given for a key (`any`, `ollama`) is no
secret, and to strike it out would change what models say."""


class Secret:
    """A key that does not print."""

    __slots__ = ("_hidden", "_value")

    def __init__(self, value: str) -> None:
        self._value = value
        self._hidden = value if len(value) >= _SHORTEST_KEY else ""

    def reveal(self) -> str:
        return self._value

    def hide_in(self, text: str) -> str:
        """The text without the key; providers like to quote it back."""
        return text.replace(self._hidden, "<key>") if self._hidden else text

    def hide_in_bytes(self, body: bytes) -> bytes:
        """The body without the key; servers that echo a request's headers exist."""
        spelled = self._hidden.encode()
        return body.replace(spelled, b"<key>") if spelled and spelled in body else body

    def __repr__(self) -> str:
        return "Secret(...)"


class Keys:
    """The keys of one account or of several, used in turn. May be empty: some servers want none."""

    __slots__ = ("_secrets",)

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._secrets = tuple(Secret(value) for value in dict.fromkeys(values) if value)

    def __bool__(self) -> bool:
        return bool(self._secrets)

    def __len__(self) -> int:
        return len(self._secrets)

    @property
    def digest(self) -> str:
        """A name for these keys, from which they cannot be told."""
        spelled = "\n".join(sorted(secret.reveal() for secret in self._secrets))
        return hashlib.sha256(spelled.encode()).hexdigest()[:16]

    @property
    def first(self) -> Secret | None:
        """The key for what belongs to one account and is asked for again, such as a batch."""
        return self._secrets[0] if self._secrets else None

    def of(self, call: Call, attempt: int) -> Secret | None:
        """The key for this attempt. Calls spread evenly, and a further attempt takes the next key."""
        if len(self._secrets) < 2:
            return self._secrets[0] if self._secrets else None
        return self._secrets[(int.from_bytes(call.key[:4], "big") + attempt) % len(self._secrets)]

    def hide_in(self, text: str) -> str:
        for secret in self._secrets:
            text = secret.hide_in(text)
        return text

    def hide_in_bytes(self, body: bytes) -> bytes:
        for secret in self._secrets:
            body = secret.hide_in_bytes(body)
        return body

    def hide_in_each(self, texts: dict[str, str]) -> dict[str, str]:
        """The values without the keys. Few servers quote a key, so all are looked through at once first."""
        together = "\n".join(texts.values())
        if self.hide_in(together) == together:
            return texts
        return {name: self.hide_in(text) for name, text in texts.items()}

    def __repr__(self) -> str:
        return f"Keys({len(self._secrets)})"


def keys_in(settings: Mapping[str, str], names: Iterable[str]) -> tuple[list[str], str]:
    """The keys under the first of these names that is set, with `NAME_2`, `NAME_3` and so on; and that name.

    The second value is the name of a key that cannot be sent in a header, or empty.
    """
    for name in names:
        if not settings.get(name, "").strip():
            continue
        found: list[str] = []
        for numbered in (name, *(f"{name}_{number}" for number in range(2, _MOST_KEYS))):
            value = settings.get(numbered, "").strip()
            if not value:
                break
            if not (value.isascii() and value.isprintable()):
                return [], numbered
            found.append(value)
        return found, ""
    return [], ""
