"""What clients bring: bodies and forms of any size, written to disk as they come."""

from pathlib import Path

import msgspec
from aiohttp import BodyPartReader, web

from trialrun.testing.emulator.asked import Refusal, Trouble, refused
from trialrun.testing.emulator.batches.files import Files

LARGEST_FILE = 2_000_000_000
_PIECE = 1 << 18
_LONGEST_FIELD = 10_000
_DESCRIBED = msgspec.json.Decoder(dict[str, object])


async def whole(request: web.Request, files: Files, *, most: int = LARGEST_FILE) -> Path:
    """The body of a request, on disk. Refuses one that is larger than `most`."""
    path, size = files.place(), 0
    with path.open("wb") as file:
        async for piece in request.content.iter_chunked(_PIECE):
            size += len(piece)
            if size > most:
                raise Refusal(Trouble(kind="too_large"))
            file.write(piece)
    return path


async def form(request: web.Request, files: Files, *, most: int = LARGEST_FILE) -> "Form":
    """A form with one file in it."""
    if not request.content_type.startswith("multipart/"):
        raise refused("The request must be a form (multipart/form-data).")
    given = Form()
    try:
        async for part in await request.multipart():
            if not isinstance(part, BodyPartReader) or not part.name:
                continue
            if part.name == "file":
                given.name = part.filename or "upload"
                given.path = await _saved(part, files, most)
            else:
                given.fields[part.name] = (await part.read_chunk(_LONGEST_FIELD)).decode("utf-8", "replace")
    except ValueError as error:
        raise refused(f"The form cannot be read: {error}") from error
    return given


async def related(request: web.Request, files: Files) -> tuple[dict[str, str], Path, str]:
    """What a body of two parts says about the second, that part on disk, and its type."""
    if request.content_type != "multipart/related":
        raise refused("The request must have two parts (multipart/related).")
    try:
        parts = await request.multipart()
        first = await parts.next()
        described = _DESCRIBED.decode(await first.read()) if isinstance(first, BodyPartReader) else {}
        second = await parts.next()
        if not isinstance(second, BodyPartReader):
            raise refused("The request must have two parts.")
        path = await _saved(second, files, LARGEST_FILE)
    except ValueError as error:
        raise refused(f"The parts cannot be read: {error}") from error
    kind = second.headers.get("Content-Type", "application/octet-stream")
    return {name: value for name, value in described.items() if isinstance(value, str)}, path, kind


class Form:
    """The fields of a form, and the file that came with them."""

    def __init__(self) -> None:
        self.fields: dict[str, str] = {}
        self.name = ""
        self.path: Path | None = None


async def _saved(part: BodyPartReader, files: Files, most: int) -> Path:
    path, size = files.place(), 0
    with path.open("wb") as file:
        while piece := await part.read_chunk(_PIECE):
            size += len(piece)
            if size > most:
                raise Refusal(Trouble(kind="too_large"))
            file.write(piece)
    return path
