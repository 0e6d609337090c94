"""The files of packs, in the folder `batches/` of a study: requests, whose they are, and results as they came.

K1. A pack's folder appears whole or not at all: it is filled under another name, made durable, and then renamed.
K2. A file of results appears whole or not at all, in the same way, and is never changed.
"""

import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec

from trialrun.core.batches import Directory, Form, PackFile, Row, Spool
from trialrun.core.errors import StoreError
from trialrun.store.directory import FileDirectory, is_away, is_changed
from trialrun.store.failures import store_error

T = TypeVar("T")
FOLDER = "batches"
REQUESTS, ROWS, FORMS = "requests.jsonl", "rows.jsonl", "forms.jsonl"
_OPEN = ".open-"
_BUFFER = 1 << 18

_encode = msgspec.json.Encoder().encode
_row = msgspec.json.Decoder(Row).decode
_form = msgspec.json.Decoder(Form).decode


class FilePacks:
    """The packs of the study in one folder."""

    def __init__(self, study: Path) -> None:
        self._folder = study / FOLDER
        self._opened = 0

    def spool(self, model: str) -> Spool:
        """Begin a pack."""
        self._opened += 1
        try:
            return FileSpool(self._folder, f"{_OPEN}{os.getpid()}-{self._opened}", model)
        except OSError as error:
            raise store_error(error, self._folder) from error

    def sealed(self, id_: str, model: str) -> PackFile | None:
        """The pack that was sealed under this id; None if its file is not there."""
        path = self._folder / id_ / REQUESTS
        if not path.is_file():
            return None
        requests = sum(1 for _ in self.rows(id_))
        return PackFile(id=id_, model=model, path=path, requests=requests, size_bytes=path.stat().st_size)

    def rows(self, id_: str) -> Iterator[Row]:
        """Whose each request is, in the order of the file."""
        return self._read(id_, ROWS, _row)

    def directory(self, id_: str) -> Directory:
        """The same, to be looked up. The caller closes it."""
        path = self._folder / id_ / ROWS
        try:
            return FileDirectory(path)
        except FileNotFoundError as error:
            raise is_away(id_, path) from error

    def forms(self, id_: str) -> list[Form]:
        """What reading the replies needs of the requests, by number."""
        return list(self._read(id_, FORMS, _form))

    async def keep(self, id_: str, name: str, chunks: AsyncIterator[bytes]) -> tuple[str, int]:
        """Store raw results, whole or not at all. Returns their digest and size."""
        path = self._folder / id_ / name
        partial = path.with_suffix(".partial")
        digest, size = _hasher(), 0
        try:
            with partial.open("wb") as file:
                async for chunk in chunks:
                    digest.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
                _settle_on_disk(file)
            partial.replace(path)
            _sync_folder(path.parent)
        except OSError as error:
            raise store_error(error, path) from error
        return digest.hexdigest(), size

    def has(self, id_: str, name: str, digest: str) -> bool:
        """Whether stored results are there, as they were stored."""
        found = _hasher()
        try:
            with (self._folder / id_ / name).open("rb") as file:
                while chunk := file.read(_BUFFER):
                    found.update(chunk)
        except OSError:
            return False
        return found.hexdigest() == digest

    def lines(self, id_: str, name: str) -> Iterator[bytes]:
        """The lines of stored results."""
        return self._lines(id_, name)

    def sweep(self, known: set[str]) -> None:
        """Remove what was never sealed, or is no pack of the journal: nothing of it has left."""
        if not self._folder.is_dir():
            return
        for path in self._folder.iterdir():
            is_ours = path.name.startswith(_OPEN) or (path / ROWS).is_file()
            if path.is_dir() and is_ours and path.name not in known:
                shutil.rmtree(path, ignore_errors=True)

    def _read(self, id_: str, name: str, read: Callable[[bytes], T]) -> Iterator[T]:
        for line in self._lines(id_, name):
            try:
                yield read(line)
            except ValueError as error:
                raise is_changed(id_, self._folder / id_ / name) from error

    def _lines(self, id_: str, name: str) -> Iterator[bytes]:
        path = self._folder / id_ / name
        try:
            with path.open("rb", buffering=_BUFFER) as file:
                yield from file
        except FileNotFoundError as error:
            raise is_away(id_, path) from error
        except OSError as error:
            raise store_error(error, path) from error


class FileSpool:
    """A pack that is being filled, in a folder of its own."""

    def __init__(self, folder: Path, name: str, model: str) -> None:
        self.requests = 0
        self.size_bytes = 0
        self._home = folder
        self._model = model
        self._folder = folder / name
        self._folder.mkdir(parents=True, exist_ok=False)
        self._digest = _hasher()
        self._rows_digest = _hasher()
        self._forms: dict[bytes, int] = {}
        self._trouble: StoreError | None = None
        self._requests = self._opened(REQUESTS)
        self._rows = self._opened(ROWS)

    def form_number(self, form: Form) -> int:
        """The number under which rows name this form; equal forms have one."""
        return self._forms.setdefault(_encode(form), len(self._forms))

    def add(self, line: bytes, row: Row) -> None:
        """Put a request at the end."""
        self._must_be_whole()
        encoded = _encode(row) + b"\n"
        try:
            self._requests.write(line)
            self._rows.write(encoded)
        except OSError as error:
            self._trouble = store_error(error, self._folder)
            raise self._trouble from error
        self._digest.update(line)
        self._rows_digest.update(encoded)
        self.requests += 1
        self.size_bytes += len(line)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def seal(self, id_: str) -> PackFile:
        """Make everything durable under the pack's id. Nothing can be added any more."""
        self._must_be_whole()
        final = self._home / id_
        try:
            forms = self._opened(FORMS)
            lines = b"".join(form + b"\n" for form in self._forms)
            forms.write(lines)
            digests = self._rows_digest.hexdigest(), hashlib.blake2b(lines, digest_size=16).hexdigest()
            for file in (self._requests, self._rows, forms):
                file.flush()
                os.fsync(file.fileno())
                file.close()
            _sync_folder(self._folder)
            self._folder.rename(final)
            _sync_folder(self._home)
        except OSError as error:
            raise store_error(error, self._folder) from error
        return PackFile(
            id=id_,
            model=self._model,
            path=final / REQUESTS,
            requests=self.requests,
            size_bytes=self.size_bytes,
            beside=((ROWS, digests[0]), (FORMS, digests[1])),
        )

    def discard(self) -> None:
        """Forget it; nothing has left."""
        for file in (self._requests, self._rows):
            with suppress(OSError):  # what cannot be written any more need not be
                file.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _must_be_whole(self) -> None:
        """After a write that failed nobody knows what is in the files, also when there is room again."""
        if self._trouble is not None:
            raise StoreError(self._trouble.what, where=self._trouble.where, fix=self._trouble.fix)

    def _opened(self, name: str) -> BinaryIO:
        return (self._folder / name).open("wb", buffering=_BUFFER)


def _hasher() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=16)


def _settle_on_disk(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """A name in a folder is durable when the folder is."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
