"""Bodies of requests that are read from a pack's file while they are sent: 200 MB are never in memory.

A pack's file holds JSON lines, so a line break in it is always the end of a request, and never part of one.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FileBody:
    """`head`, then the file, then `tail`. Can be sent more than once."""

    path: Path
    size_bytes: int
    """Of the file."""
    head: bytes = b""
    tail: bytes = b""
    is_list: bool = False
    """Whether the lines of the file become the items of a list: commas between them, and none after the last."""

    @property
    def length(self) -> int:
        """What `Content-Length` has to say."""
        ends = 1 if self.is_list and self.size_bytes else 0
        return len(self.head) + self.size_bytes - ends + len(self.tail)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.head:
            yield self.head
        # Opened for each chunk: a request that ends early leaves no open file behind.
        for start in range(0, self.size_bytes, _CHUNK_BYTES):
            yield await asyncio.to_thread(self._chunk, start)
        if self.tail:
            yield self.tail

    def _chunk(self, start: int) -> bytes:
        with self.path.open("rb") as file:
            file.seek(start)
            chunk = file.read(min(_CHUNK_BYTES, self.size_bytes - start))
        if not self.is_list:
            return chunk
        if start + len(chunk) == self.size_bytes:
            chunk = chunk[:-1]
        return chunk.replace(b"\n", b",")


def multipart(path: Path, size_bytes: int, *, name: str, fields: Mapping[str, str]) -> tuple[str, FileBody]:
    """A form with these fields and the file, and its content type. JSON lines hold no boundary of a form."""
    file = (
        f'--{_boundary(name)}\r\nContent-Disposition: form-data; name="file"; filename="{name}.jsonl"\r\n'
        "Content-Type: application/jsonl\r\n\r\n"
    )
    body = FileBody(
        path=path,
        size_bytes=size_bytes,
        head=_parts(fields, name) + file.encode(),
        tail=b"\r\n" + _end(name),
    )
    return _kind(name), body


def form(fields: Mapping[str, str], *, name: str) -> tuple[str, bytes]:
    """A form of these fields alone, and its content type."""
    return _kind(name), _parts(fields, name) + _end(name)


def listed(path: Path, size_bytes: int, *, head: bytes, tail: bytes) -> FileBody:
    """The lines of the file as the items of a JSON list between `head` and `tail`."""
    return FileBody(path=path, size_bytes=size_bytes, head=head, tail=tail, is_list=True)


def _boundary(name: str) -> str:
    return f"trialrun-{name}"


def _kind(name: str) -> str:
    return f"multipart/form-data; boundary={_boundary(name)}"


def _parts(fields: Mapping[str, str], name: str) -> bytes:
    parts = [
        f'--{_boundary(name)}\r\nContent-Disposition: form-data; name="{field}"\r\n\r\n{value}\r\n'
        for field, value in fields.items()
    ]
    return "".join(parts).encode()


def _end(name: str) -> bytes:
    return f"--{_boundary(name)}--\r\n".encode()
