"""The requests of a batch: a file of lines, read one at a time, in an order that is not the client's."""

import hashlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from trialrun.providers.reading import tokens_in_of
from trialrun.testing.emulator.asked import Refusal
from trialrun.testing.emulator.batches.course import Ending
from trialrun.testing.emulator.dialect import Dialect, Json
from trialrun.testing.emulator.visit import LineReply


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a batch was refused as a whole; with the number of a line, if it is one line's fault."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class Form(Protocol):
    """How one protocol writes requests and results as lines. Pure."""

    dialect: Dialect
    splits: bool
    """Whether what failed goes to a file of its own."""
    can_fail: bool
    """Whether a batch can fail as a whole; elsewhere it ends, and each of its lines has failed."""

    def ask(self, raw: bytes) -> tuple[str, bytes, str]:
        """The id, the body and (if the body does not name it) the model of a request."""
        ...

    def dressed(self, content: Json) -> Json:
        """A reply as a batch gives it, which may be marked as such."""
        ...

    def tell(self, id_: str, raw: bytes, reply: LineReply) -> bytes:
        """The line of a result, with its end."""
        ...

    def never_ran(self, id_: str, raw: bytes, ending: Ending) -> bytes | None:
        """The line of a request whose turn never came; None if there is none."""
        ...


class Lines:
    """A file of requests with the places of its lines. Empty lines do not count."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._starts: array[int] = array("Q")
        self._sizes: array[int] = array("L")
        digest = hashlib.blake2b(digest_size=16)
        start = 0
        with path.open("rb") as file:
            for line in file:
                digest.update(line)
                if line.strip():
                    self._starts.append(start)
                    self._sizes.append(len(line))
                start += len(line)
        self.digest = digest.hexdigest()
        self.size_bytes = start

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[bytes]:
        """All lines, from the first."""
        with self.path.open("rb") as file:
            for number in range(len(self)):
                yield self.at(file, number)

    def at(self, file: BinaryIO, number: int) -> bytes:
        """One line of the opened file."""
        file.seek(self._starts[number])
        return file.read(self._sizes[number])


def tokens_in(lines: Lines, form: Form, provider: str, model: str = "") -> int:
    """Input tokens of all requests that can be read."""
    total = 0
    for raw in lines:
        try:
            _, body, named = form.ask(raw)
            total += tokens_in_of(form.dialect.read(body, provider=provider, model=named or model).request)
        except (Refusal, msgspec.DecodeError):
            continue
    return total
