"""Connections to `study.db`: one that writes, and any number that only read. Everything that is apsw is here."""

import errno
import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import apsw

from trialrun.core.errors import StoreError
from trialrun.store import schema
from trialrun.store.failures import store_error

BUSY_MS = 20_000
"""How long to wait for another process that puts a wish into the inbox; it takes milliseconds."""

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"
"""The tables of a file, in the words in which they were created."""

Cell = str | int | float | bytes | None
Trouble = (apsw.Error, OSError, UnicodeDecodeError)
"""What goes wrong inside; `Database.told` turns it into our errors. A stored name that is damaged may be no UTF-8."""


class Database:
    """One connection, with the types that apsw leaves open. A row is a tuple of cells; the caller knows which."""

    def __init__(self, connection: apsw.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self._execute = cast("Any", connection).execute

    def run(self, sql: str, cells: Sequence[Cell] = ()) -> None:
        """Carry out a statement that gives nothing back."""
        self._execute(sql, cells)

    def rows(self, sql: str, cells: Sequence[Cell] = ()) -> list[tuple[Any, ...]]:
        """All rows at once; no read stays open behind it."""
        return cast("list[tuple[Any, ...]]", self._execute(sql, cells).fetchall())

    def each(self, sql: str, cells: Sequence[Cell] = ()) -> Iterator[tuple[Any, ...]]:
        """Row by row, in constant memory. The read stays open until the iterator is exhausted or dropped."""
        return cast("Iterator[tuple[Any, ...]]", self._execute(sql, cells))

    def value(self, sql: str, cells: Sequence[Cell] = ()) -> Any:  # a cell; the caller knows which
        """The only cell of the only row, or None."""
        return self._execute(sql, cells).get

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Everything inside, or nothing. Takes the write lock at once, so that it waits and does not fail halfway."""
        self._execute("BEGIN IMMEDIATE")
        try:
            yield
            self._execute("COMMIT")
        except BaseException:
            if not self._connection.get_autocommit():
                self._execute("ROLLBACK")
            raise

    @contextmanager
    def told(self) -> Generator[None]:
        """Trouble with the file, in our words."""
        try:
            yield
        except Trouble as error:
            raise self.trouble(error) from error

    def trouble(self, error: BaseException) -> StoreError:
        """What this error means for the study."""
        return store_error(error, self.path, system_errno=self._connection.system_errno)

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Every read inside sees the same moment."""
        self._execute("BEGIN")
        try:
            yield
        finally:
            self._execute("COMMIT")

    def fold_log(self) -> None:
        """Write the log into the file, so that a copy of the file is complete."""
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def close(self) -> None:
        self._connection.close()


def open_writer(path: Path) -> Database:
    """The connection that writes; creates the file, and brings it to this version's tables."""
    db = _connected(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    with _closed_on_trouble(db):
        _check_identity(db)
        db.run("PRAGMA journal_mode = WAL")
        # FULL: a reply is on the disk before it is used, also when the power fails.
        db.run("PRAGMA synchronous = FULL")
        # Texts lie in the index by hash, so every one touches another page: with a larger cache and a longer log,
        # a page is written once for many of them.
        db.run("PRAGMA cache_size = -16384")
        db.run("PRAGMA wal_autocheckpoint = 4000")
        # A statement keeps each page that it touches as it was, to be undone alone: in memory, and not in a file.
        db.run("PRAGMA temp_store = MEMORY")
        _migrate(db)
    return db


def open_reader(path: Path) -> Database:
    """A connection that only reads, also where nothing may be written at all."""
    _must_exist(path)
    db = _connected(path, apsw.SQLITE_OPEN_READONLY)
    try:
        db.rows("SELECT 1 FROM sqlite_schema LIMIT 1")  # the first read is the one that needs the log's index
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        db.close()
        # A folder that cannot be written has no place for that index. Without a log the file is complete.
        if path.with_name(path.name + "-wal").exists():
            raise store_error(error, path) from error
        db = _connected(path, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, uri="?immutable=1")
    except apsw.Error as error:
        db.close()
        raise store_error(error, path) from error
    with _closed_on_trouble(db):
        _check_identity(db)
        _must_have_tables(db)
    return db


def open_guest(path: Path) -> Database:
    """A connection of another process, which puts a wish into the inbox while a run goes on."""
    _must_exist(path)
    if not os.access(path.parent, os.W_OK):
        raise store_error(PermissionError(errno.EACCES, "no write access"), path)
    db = _connected(path, apsw.SQLITE_OPEN_READWRITE)
    with _closed_on_trouble(db):
        _check_identity(db)
        _must_have_tables(db)
    return db


def close_for_good(db: Database) -> None:
    """Close the connection that wrote, with everything in the one file where that is possible."""
    try:
        db.fold_log()
    except Trouble:
        pass  # somebody reads, or the disk is full: the log stays, and is part of the study
    finally:
        db.close()


def _connected(path: Path, flags: int, *, uri: str = "") -> Database:
    name = f"file:{_quoted(path)}{uri}" if uri else str(path)
    try:
        connection = apsw.Connection(name, flags=flags)
    except Trouble as error:
        raise store_error(error, path) from error
    connection.set_busy_timeout(BUSY_MS)
    return Database(connection, path)


@contextmanager
def _closed_on_trouble(db: Database) -> Generator[None]:
    try:
        with db.told():
            yield
    except BaseException:
        db.close()
        raise


def _quoted(path: Path) -> str:
    return str(path.resolve()).replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def _must_exist(path: Path) -> None:
    if not path.exists():
        raise _not_run_yet(path, "it has no database")


def _must_have_tables(db: Database) -> None:
    version: int = db.value("PRAGMA user_version")
    if version == 0:
        raise _not_run_yet(db.path, "its database is empty")
    if version < schema.VERSION:
        raise StoreError(
            f"this study was written by an older trialrun (tables of version {version}; "
            f"this one reads {schema.VERSION})",
            where=str(db.path),
            fix="`trialrun run` brings the file up to date, also when there is nothing left to run",
        )


def _not_run_yet(path: Path, why: str) -> StoreError:
    return StoreError(
        f"this study has not run yet: {why}",
        where=str(path),
        fix="`trialrun run` begins it; or check the path",
    )


def _check_identity(db: Database) -> None:
    version = db.value("PRAGMA user_version")
    is_ours = db.value("PRAGMA application_id") == schema.APPLICATION_ID
    if not is_ours and db.value("SELECT count(*) FROM sqlite_schema"):
        raise StoreError(
            "this SQLite file belongs to another program",
            where=str(db.path),
            fix="choose another folder for the study",
        )
    if version > schema.VERSION:
        raise StoreError(
            f"this study was written by a newer trialrun (tables of version {version}; "
            f"this one knows {schema.VERSION})",
            where=str(db.path),
            fix="upgrade trialrun",
        )


def _migrate(db: Database) -> None:
    """Bring the tables to this version, all steps or none."""
    if db.value("PRAGMA user_version") == schema.VERSION:
        return
    with db.transaction():
        version: int = db.value("PRAGMA user_version")
        for number, migration in enumerate(schema.MIGRATIONS[version:], start=version + 1):
            db.run(migration)
            db.run(f"PRAGMA user_version = {number}")
        db.run(f"PRAGMA application_id = {schema.APPLICATION_ID}")


def tables_as_created() -> list[tuple[Any, ...]]:
    """What SCHEMA gives for a file in order."""
    db = Database(apsw.Connection(":memory:"), Path(":memory:"))
    _migrate(db)
    return db.rows(SCHEMA)
