"""All that is peculiar to SQLite. Another database is another file with these names.

`database` needs of it: an engine of automatic commits, a `BEGIN` that lets one writer in at a time, `settle`,
`file_of` and `explain`; others an `insert` with `on_conflict_*`, and `data_version` to wait with.
"""

import os
import sqlite3
import time
from typing import Any, Literal

import sqlalchemy
from sqlalchemy import Connection, Engine, event, pool
from sqlalchemy.dialects.sqlite import insert

__all__ = [
    "BEGIN",
    "MAX_INTEGER",
    "Synchronous",
    "data_version",
    "explain",
    "file_of",
    "insert",
    "is_file",
    "is_foreign",
    "make_engine",
    "settle",
]

type Synchronous = Literal["NORMAL", "FULL"]

# Who means to write says so at once: a transaction that read first cannot write once somebody else has written.
BEGIN = "BEGIN IMMEDIATE"

RETRY_SECONDS = 0.02
MAX_INTEGER = 2**63 - 1

SENTENCES = {
    "SQLITE_FULL": "The disk or the quota of {name} is full: make room and go on, all that was committed is there.",
    "SQLITE_READONLY": "{name} is read-only: get the right to write it and its folder, or give another path.",
    "SQLITE_BUSY": "{name} stayed locked by another program: end its transaction or wait longer.",
    "SQLITE_CORRUPT": "{name} is damaged: take a copy, then save what is left with `sqlite3 FILE .recover`.",
    "SQLITE_NOTADB": "{name} is no database: give another path.",
    "SQLITE_CANTOPEN": "{name} cannot be opened: its folder must exist and be yours to write.",
    "SQLITE_PERM": "{name} cannot be opened: get the right to read and write it.",
    "SQLITE_IOERR": "The disk under {name} failed: all that was committed before is there.",
}


def make_engine(url: sqlalchemy.URL, synchronous: Synchronous, busy_seconds: float) -> Engine:
    """Returns an engine whose every connection is set up alike; nothing is opened yet."""
    connect_args: dict[str, Any] = {"timeout": busy_seconds, "check_same_thread": False}
    # A memory database is its connection: all threads take turns with one. In a file nobody waits for a reader.
    pools = {"poolclass": pool.QueuePool, "max_overflow": -1} if is_file(url) else {"poolclass": pool.StaticPool}
    engine = sqlalchemy.create_engine(url, isolation_level="AUTOCOMMIT", connect_args=connect_args, **pools)

    @event.listens_for(engine, "connect")
    def set_up(driver: sqlite3.Connection, _: object) -> None:
        driver.execute(f"PRAGMA synchronous = {synchronous}")
        driver.execute("PRAGMA foreign_keys = ON")

    return engine


def is_file(url: sqlalchemy.URL) -> bool:
    return url.database not in (None, "", ":memory:") and url.query.get("mode") != "memory"


def settle(engine: Engine, busy_seconds: float) -> None:
    """Lets readers and one writer work side by side; the file remembers it.

    SQLite does not wait for a lock here by itself, and several processes may meet over a new file.
    """
    driver = engine.raw_connection()
    deadline = time.monotonic() + busy_seconds
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


def file_of(connection: Connection) -> str | None:
    """Returns the real path of the database, None in memory."""
    path = connection.exec_driver_sql("PRAGMA database_list").all()[0][2]
    return os.path.realpath(path) if path else None


def data_version(cursor: Any) -> int:
    """Returns a number that is another one once somebody else has committed; only its changes mean something."""
    found: int = cursor.execute("PRAGMA data_version").fetchall()[0][0]
    return found


def is_foreign(error: BaseException) -> bool:
    """Says whether a file is not what it was taken for, rather than out of order for now."""
    name: str = getattr(error, "sqlite_errorname", "")
    return name.startswith(("SQLITE_NOTADB", "SQLITE_CANTOPEN", "SQLITE_PERM"))


def explain(error: BaseException, name: str) -> str:
    """Returns what happened and what to do, in one sentence."""
    code: str = getattr(error, "sqlite_errorname", "")
    family = "_".join(code.split("_")[:2])  # SQLITE_IOERR_WRITE is a SQLITE_IOERR
    sentence = SENTENCES.get(family, "{name} could not be read or written.")
    return f"{sentence.format(name=name)} ({error})"
