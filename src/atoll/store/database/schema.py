"""Tables and their upgrades.

    runs ─┬─ records      the journal: one row per record, numbered in each run
          ├─ candidates   derived from the records; each row refers to the record with the content
          └─ commands     the inbox
    changes               versioned values of all runs: versions, locks, aliases and notes in one hash chain
    blobs                 bytes by hash
    atoll                 one row: the version of this schema

`records.at` is the time of the commit in seconds since 1970; records of version 0.1 have none.
Data is JSON text in ASCII. Long texts are in `blobs`; `links` lists their places. In `changes`, `body` is the hash of a
long value.
"""

import itertools
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.dialects import sqlite

from atoll import errors
from atoll.store.records.json_codec import LONG_TEXT_CHARS, Blob, encode, unpack
from atoll.store.versions.change import GENESIS, ChangeEntry

CREATE_CHANGES = """
CREATE TABLE changes (
    seq INTEGER NOT NULL PRIMARY KEY, "key" VARCHAR NOT NULL, kind VARCHAR NOT NULL, n INTEGER, target INTEGER,
    value TEXT, reason TEXT NOT NULL, author VARCHAR NOT NULL, at VARCHAR NOT NULL, token VARCHAR UNIQUE,
    hash VARCHAR(64) NOT NULL, body VARCHAR(64), UNIQUE ("key", n)
)
"""
CREATE_CHANGES_INDEX = 'CREATE INDEX changes_beside ON changes ("key", seq) WHERE n IS NULL'


def chain_versions(connection: Connection) -> None:
    """Merges the tables of versions and locks into one hash chain of changes.

    Schema 1 has no times, and no order between locks and versions. All changes get the time of the upgrade, and locks
    follow versions.
    """
    timestamp = datetime.now(UTC).isoformat(timespec="microseconds")
    connection.exec_driver_sql(CREATE_CHANGES)
    connection.exec_driver_sql(CREATE_CHANGES_INDEX)
    heads: dict[str, int] = {}
    seq, last_hash = 0, GENESIS
    versions = "SELECT key, n, token, data, links FROM versions ORDER BY change"
    for key, n, token, data, links in connection.exec_driver_sql(versions).all():
        old = unpack(data, links, lambda sha256: _load_blob(connection, sha256))
        seq, heads[key] = seq + 1, n
        value = encode(old["value"])
        version_reason, version_author = _escape_unstorable(old["reason"]), _escape_unstorable(old["author"])
        entry = ChangeEntry(seq, key, "set", n, None, value, version_reason, version_author, timestamp, token)
        last_hash = _insert_entry(connection, entry.with_hash(last_hash))
    locks = "SELECT key, is_locked, data FROM locks ORDER BY key, number"
    for key, is_locked, data in connection.exec_driver_sql(locks).all():
        author, reason = map(_escape_unstorable, json.loads(data))
        seq, kind = seq + 1, "lock" if is_locked else "unlock"
        entry = ChangeEntry(seq, key, kind, None, heads.get(key, 0), None, reason, author, timestamp, None)
        last_hash = _insert_entry(connection, entry.with_hash(last_hash))
    connection.exec_driver_sql("DROP TABLE versions")
    connection.exec_driver_sql("DROP TABLE locks")


def _escape_unstorable(text: str) -> str:
    """Escapes surrogates and zero bytes, which a text column cannot store."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _load_blob(connection: Connection, sha256: str) -> bytes:
    query = "SELECT sha256, size, is_compressed, body FROM blobs WHERE sha256 = :sha256"
    return Blob(*_execute(connection, query, {"sha256": sha256}).one()).decompress()


def _insert_entry(connection: Connection, entry: ChangeEntry) -> str:
    values: dict[str, Any] = entry._asdict() | {"body": None}
    if entry.value is not None and len(entry.value) > LONG_TEXT_CHARS:
        stored_blob = Blob.from_bytes(entry.value.encode())
        insert_blob = "INSERT INTO blobs VALUES (:sha256, :size, :is_compressed, :stored) ON CONFLICT DO NOTHING"
        _execute(connection, insert_blob, stored_blob._asdict())
        values |= {"value": None, "body": stored_blob.sha256}
    names = ", ".join(values)
    _execute(connection, f"INSERT INTO changes ({names}) VALUES ({', '.join(f':{name}' for name in values)})", values)
    return entry.hash


def _execute(connection: Connection, statement: str, values: Mapping[str, Any]) -> Any:
    return connection.execute(text(statement), dict(values))


def add_record_times(connection: Connection) -> None:
    """Adds the time of each record; records of older versions have none."""
    column_type = "DOUBLE PRECISION" if connection.dialect.name == "postgresql" else "DOUBLE"
    connection.exec_driver_sql(f"ALTER TABLE records ADD COLUMN at {column_type}")


VERSION = 3

type Upgrade = Callable[[Connection], None]

# Upgrades by old version. An upgrade uses SQL, not the tables below, which are those of VERSION, and never changes.
UPGRADES: Mapping[int, Upgrade] = {1: chain_versions, 2: add_record_times}

# Queries repeat this text exactly; otherwise SQLite does not use the partial index.
ACCEPTED = text("verdict = 'accept' AND score IS NOT NULL")
VERSIONED = text("version IS NOT NULL")
NO_VERSION = text("n IS NULL")

# SQLite has one integer size and sorts texts by code points; PostgreSQL needs both declared.
INTEGER = Integer().with_variant(BigInteger(), "postgresql")
STRING = String().with_variant(String(collation="C"), "postgresql")
HASH = String(64).with_variant(String(64, collation="C"), "postgresql")

metadata = MetaData()

atoll = Table("atoll", metadata, Column("schema_version", INTEGER, nullable=False))

runs = Table(
    "runs",
    metadata,
    Column("number", INTEGER, primary_key=True),
    Column("id", STRING, nullable=False, unique=True),
    Column("created_at", STRING, nullable=False),
    Column("config", Text, nullable=False),
    Column("links", Text),
)

records = Table(
    "records",
    metadata,
    Column("run", INTEGER, ForeignKey("runs.number"), primary_key=True),
    Column("seq", INTEGER, primary_key=True),
    Column("kind", STRING, nullable=False),
    Column("step", INTEGER, nullable=False),
    Column("island", INTEGER, nullable=False),
    Column("data", Text, nullable=False),
    Column("links", Text),
    Column("at", Double),
)

candidates = Table(
    "candidates",
    metadata,
    Column("run", INTEGER, ForeignKey("runs.number"), primary_key=True),
    Column("step", INTEGER, primary_key=True),
    Column("is_draft", Boolean, primary_key=True),
    Column("k", INTEGER, primary_key=True),
    Column("island", INTEGER, nullable=False),
    Column("seq", INTEGER, nullable=False),
    Column("score", Double),
    Column("verdict", STRING),
    Column("version", STRING),
    Column("decision", Text),
    Column("decided", INTEGER),
)
Index(
    "candidates_by_score",
    candidates.c.run,
    candidates.c.score.desc(),
    candidates.c.decided,
    candidates.c.k,
    sqlite_where=ACCEPTED,
)
Index(
    "candidates_by_island",
    candidates.c.run,
    candidates.c.island,
    candidates.c.score.desc(),
    candidates.c.decided,
    candidates.c.k,
    sqlite_where=ACCEPTED,
)
Index("candidates_by_version", candidates.c.run, candidates.c.version, sqlite_where=VERSIONED)

commands = Table(
    "commands",
    metadata,
    Column("run", INTEGER, ForeignKey("runs.number"), primary_key=True),
    Column("number", INTEGER, primary_key=True),
    Column("kind", STRING, nullable=False),
    Column("data", Text, nullable=False),
    Column("links", Text),
)

changes = Table(
    "changes",
    metadata,
    Column("seq", INTEGER, primary_key=True, autoincrement=False),
    Column("key", STRING, nullable=False),
    Column("kind", STRING, nullable=False),
    Column("n", INTEGER),
    Column("target", INTEGER),
    Column("value", Text),
    Column("reason", Text, nullable=False),
    Column("author", STRING, nullable=False),
    Column("at", STRING, nullable=False),
    Column("token", STRING, unique=True),
    Column("hash", HASH, nullable=False),
    Column("body", HASH),
    UniqueConstraint("key", "n"),
)
Index("changes_beside", changes.c.key, changes.c.seq, sqlite_where=NO_VERSION)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", HASH, primary_key=True),
    Column("size", INTEGER, nullable=False),
    Column("is_compressed", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


def insert_for(dialect: str) -> Any:
    """Returns the dialect's `insert`, which has `on_conflict_do_update` and `on_conflict_do_nothing`."""
    if dialect != "postgresql":
        return sqlite.insert
    from sqlalchemy.dialects import postgresql  # slow import, and most stores are files

    return postgresql.insert


def find_version(connection: Connection, name: str) -> int:
    """Returns the schema version of a database; 0: empty.

    Raises:
        SetupError: The database belongs to another program.
    """
    tables = inspect(connection).get_table_names()
    if atoll.name in tables:
        version = connection.execute(select(atoll.c.schema_version)).scalar()
        if isinstance(version, int):
            return version
    if tables:
        raise errors.SetupError(f"{name} is a database of another program. Use another path.")
    return 0


def check_version(current_version: int, name: str, version: int = VERSION) -> None:
    """Raises `SetupError` if a newer Atoll wrote the store."""
    if current_version > version:
        raise errors.SetupError(
            f"A newer Atoll wrote {name} (schema {current_version}; this one supports {version}). "
            "Install the newer version, or use another path."
        )


def _restrict_postgres_indexes() -> None:
    """Copies the conditions of indexes to PostgreSQL. `Index(postgresql_where=...)` would load its dialect, slowly."""
    for index in itertools.chain.from_iterable(table.indexes for table in metadata.tables.values()):
        index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]


def create_or_upgrade(
    connection: Connection, name: str, *, version: int = VERSION, upgrades: Mapping[int, Upgrade] = UPGRADES
) -> None:
    """Creates the tables of an empty database, or upgrades older ones.

    Called inside a write transaction, so that only one of several processes does it.
    """
    current_version = find_version(connection, name)
    check_version(current_version, name, version)
    if current_version == 0:
        if connection.dialect.name == "postgresql":
            _restrict_postgres_indexes()
        metadata.create_all(connection)
        connection.execute(insert(atoll).values(schema_version=version))
        return
    for step in range(current_version, version):
        upgrades[step](connection)
        connection.execute(update(atoll).values(schema_version=step + 1))
