"""SQLite: run locks, engine, change signals and error messages."""

import contextlib
import fcntl
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from types import TracebackType
from typing import Any, Literal, Self
from urllib.parse import quote

import sqlalchemy
from sqlalchemy import Connection, Engine, event, pool

from atoll import errors

# A POSIX lock ends with its process, and forked children do not inherit it. It does not exclude a second lock of the
# same process, so these are recorded here.
_locked_keys: set[tuple[int, str, int]] = set()
_lock = Lock()


class FileRunLock:
    """Locks a run until `release` or the end of the process, by a lock on a file next to the database.

    A database in memory needs no file.
    """

    def __init__(self, location: str, run_number: int, run_id: str, *, is_file: bool) -> None:
        self._key, self._run_id = (os.getpid(), location, run_number), run_id
        self._path = f"{location}-claim-{run_number}"
        self._file: int | None = None
        self._is_held = False
        with _lock:
            if self._key in _locked_keys:
                raise errors.Conflict(f"This process already writes run {run_id}. Close it first.")
            if is_file:
                self._file = self._lock_file()
            _locked_keys.add(self._key)
            self._is_held = True

    def release(self) -> None:
        """Unlocks the run; a second call does nothing."""
        with _lock:
            if not self._is_held:
                return
            self._is_held = False
            _locked_keys.discard(self._key)
            if self._file is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path)  # before unlocking: a process that has it open notices
                os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _lock_file(self) -> int:
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise errors.SetupError(
                    f"Run {self._run_id} cannot be locked: {self._path} is not writable. Check its permissions."
                ) from error
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                owner = f"process {pid}" if (pid := os.pread(file, 20, 0).decode()) else "another process"
                os.close(file)
                raise errors.Conflict(
                    f"Run {self._run_id} is being written by {owner}. Wait for its end, or stop it."
                ) from error
            if _is_same_file(file, self._path):
                os.truncate(file, 0)
                os.pwrite(file, str(os.getpid()).encode(), 0)
                return file
            os.close(file)  # the file was unlinked meanwhile: try again


def _is_same_file(file: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def find_lock_owner(location: str, run_number: int) -> int | None:
    """Returns the id of the process that has locked a run, or None."""
    if (os.getpid(), location, run_number) in _locked_keys:
        return os.getpid()  # without opening the file: closing it would release our lock
    with contextlib.suppress(FileNotFoundError), open(f"{location}-claim-{run_number}", "rb") as file:
        pid = int(file.read() or 0)
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # a killed process leaves its file unlocked
        except (BlockingIOError, PermissionError):
            return pid or None
    return None


type Synchronous = Literal["NORMAL", "FULL"]

# Locks at the start: a transaction that has read cannot write after another one has written.
BEGIN = "BEGIN IMMEDIATE"

RETRY_SECONDS = 0.02
_NO_BATCH = nullcontext()
POLL_SECONDS = 0.01

MESSAGES = {
    "SQLITE_FULL": "The disk or quota of {name} is full. Free space, then resume. All commits are kept.",
    "SQLITE_READONLY": "{name} is read-only. Get write permission for the file and its folder, or use another path.",
    "SQLITE_BUSY": "{name} is locked by another program. End its transaction, or wait longer.",
    "SQLITE_CORRUPT": "{name} is damaged. Copy it, then recover its data with `sqlite3 FILE .recover`.",
    "SQLITE_NOTADB": "{name} is not a database. Use another path.",
    "SQLITE_CANTOPEN": "{name} cannot be opened. Use a file in an existing folder with write permission.",
    "SQLITE_PERM": "{name} cannot be opened. Get permission to read and write it.",
    "SQLITE_IOERR": "The disk of {name} failed. All earlier commits are kept.",
}


class Sqlite:
    """SQLite file or database in memory; see `Dialect`."""

    snapshot_statement = "BEGIN"
    is_local = True

    def __init__(self, url: sqlalchemy.URL, synchronous: Synchronous, busy_seconds: float) -> None:
        self.is_shared = _is_file(url)
        self.name = str(url.database) if self.is_shared else ":memory:"
        self.engine = _make_engine(_make_readable_url(url), synchronous, busy_seconds)
        self._busy_seconds, self._location = busy_seconds, f":memory:{uuid.uuid4()}"
        self._inode: tuple[int, int] | None = None

    def initialize(self) -> None:
        """Enables write-ahead logging, so that readers do not block the writer.

        SQLite does not wait for a lock here, but several processes may open a new file at once.
        """
        driver = self.engine.raw_connection()
        deadline = time.monotonic() + self._busy_seconds
        try:
            while True:
                try:
                    driver.cursor().execute("PRAGMA journal_mode = WAL")
                    return
                except sqlite3.OperationalError as error:
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                        raise
                time.sleep(RETRY_SECONDS)
        finally:
            driver.close()

    def find_identity(self, connection: Connection) -> str:
        """Returns the real path; a unique text for a database in memory."""
        path = connection.exec_driver_sql("PRAGMA database_list").all()[0][2]
        if path:
            self._location = os.path.realpath(path)
            self._inode = _get_inode(self._location)
        return self._location

    def check_identity(self) -> None:
        """Checks that the open file is still the one at its path; after `rm`, writes would be lost."""
        if self._is_replaced():
            raise self._make_replaced_error()

    def _is_replaced(self) -> bool:
        try:
            return self._inode is not None and _get_inode(self._location) != self._inode
        except FileNotFoundError:
            return True

    def _make_replaced_error(self) -> errors.StoreFailed:
        return errors.StoreFailed(f"{self.name} was deleted, moved or replaced while it was open. Its runs are lost.")

    def begin(self, driver: Any, locks: Sequence[str]) -> str:
        """Begins the only write transaction; SQLite has one lock for all. Checks the identity, in 1 us."""
        self.check_identity()
        driver.execute(BEGIN)
        return ""

    def was_committed(self, driver: Any, transaction: str) -> bool:
        return False

    def cursor(self, connection: Connection) -> Any:
        return connection.connection.cursor()

    def batch(self, cursor: Any) -> AbstractContextManager[object]:
        return _NO_BATCH

    def bulk_insert(self, cursor: Any, table: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        names, placeholders = ", ".join(f'"{name}"' for name in columns), ", ".join("?" * len(columns))
        cursor.executemany(f"INSERT INTO {table} ({names}) VALUES ({placeholders})", rows)

    def notify(self, cursor: Any, topic: str) -> None:
        """Does nothing: every commit changes the data version of the file."""

    @contextmanager
    def listen(self, topic: str) -> Iterator["PollingSignal"]:
        if not self.is_shared:
            yield PollingSignal(None)
            return
        with self.engine.connect() as connection:
            cursor = connection.connection.cursor()
            yield PollingSignal(lambda: _read_data_version(cursor))

    def lock_run(self, run_number: int, run_id: str) -> FileRunLock:
        return FileRunLock(self._location, run_number, run_id, is_file=self.is_shared)

    def get_writer_pid(self, run_number: int) -> int | None:
        return find_lock_owner(self._location, run_number) if self.is_shared else None

    def is_connection_lost(self, error: BaseException) -> bool:
        return False

    def restore_locks(self) -> None:
        """Does nothing: file locks are not lost."""

    def explain(self, error: BaseException, *, is_open: bool) -> errors.AtollError:
        if self._is_replaced():  # a new connection finds a file without tables
            return self._make_replaced_error()
        code: str = getattr(error, "sqlite_errorname", "")
        family = "_".join(code.split("_")[:2])  # SQLITE_IOERR_WRITE is a SQLITE_IOERR
        message = MESSAGES.get(family, "{name} could not be read or written.")
        # The file is the wrong one, not temporarily unavailable.
        is_setup_error = code.startswith(("SQLITE_NOTADB", "SQLITE_CANTOPEN", "SQLITE_PERM"))
        error_type = errors.SetupError if is_setup_error else errors.StoreFailed
        return error_type(f"{message.format(name=self.name)} ({error})")

    def close(self) -> None:
        self.engine.dispose()


class PollingSignal:
    """Polls the data version of a file, which takes 1 us; in memory it only sleeps."""

    def __init__(self, read_version: Callable[[], int] | None) -> None:
        self._read_version = read_version
        self._last_version = read_version() if read_version else 0

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        if self._read_version is None:
            time.sleep(min(seconds, POLL_SECONDS))
            return
        while (version := self._read_version()) == self._last_version and (
            remaining := deadline - time.monotonic()
        ) > 0:
            time.sleep(min(remaining, POLL_SECONDS))
        self._last_version = version


def _make_engine(url: sqlalchemy.URL, synchronous: Synchronous, busy_seconds: float) -> Engine:
    """Returns an engine that sets up every connection; opens nothing."""
    connect_args: dict[str, Any] = {"timeout": busy_seconds, "check_same_thread": False}
    # A database in memory has one connection for all threads. A file has many, so readers do not block.
    pool_options = (
        {"poolclass": pool.QueuePool, "max_overflow": -1} if _is_file(url) else {"poolclass": pool.StaticPool}
    )
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", connect_args=connect_args, **pool_options)

    @event.listens_for(engine, "connect")
    def set_up(driver: sqlite3.Connection, _: object) -> None:
        driver.execute(f"PRAGMA synchronous = {synchronous}")
        driver.execute("PRAGMA foreign_keys = ON")

    return engine


def _is_file(url: sqlalchemy.URL) -> bool:
    return url.database not in (None, "", ":memory:") and url.query.get("mode") != "memory"


def _make_readable_url(url: sqlalchemy.URL) -> sqlalchemy.URL:
    """Returns a read-only URL for a file in a folder without write permission.

    SQLite creates a log and its index even for reading. If it cannot and no process uses them, the file is opened as
    immutable.
    """
    path = url.database or ""
    folder = os.path.dirname(path) or os.curdir
    if not _is_file(url) or url.query or not os.path.exists(path) or os.access(folder, os.W_OK):
        return url
    log, index = f"{path}-wal", f"{path}-shm"
    is_in_use = os.path.exists(index) or (os.path.exists(log) and os.path.getsize(log) > 0)
    query = {"uri": "true", "mode": "ro"} | ({} if is_in_use else {"immutable": "1"})
    return url.set(database=f"file:{quote(os.path.abspath(path))}", query=query)


def _get_inode(path: str) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


def _read_data_version(cursor: Any) -> int:
    """Returns a number that changes with every commit of another connection."""
    version: int = cursor.execute("PRAGMA data_version").fetchall()[0][0]
    return version
