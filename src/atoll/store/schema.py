"""The tables, and how a file comes to have them.

    runs ─┬─ records      the journal: one row per record, numbered in each run
          ├─ candidates   a projection of the records: small rows that point at the record that holds the content
          └─ commands     the inbox
    changes               values with a history, shared by all runs: versions, locks, aliases and notes in one chain
    blobs                 bodies by hash, shared by all
    atoll                 one row: the version of this schema

Data is JSON text in ASCII. Texts that are long stand in `blobs`; `links` says where they belong, and of a change `body`
is the hash of its value.
"""

from collections.abc import Callable, Mapping
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
from sqlalchemy.dialects import postgresql, sqlite

from atoll import errors
from atoll.store import upgrades

VERSION = 2

type Upgrade = Callable[[Connection], None]

# From a version to the next one. A step never looks at the tables below, which are those of VERSION: it says in SQL
# what changes, and stays as it was written.
UPGRADES: Mapping[int, Upgrade] = {1: upgrades.chain_versions}

# Written into the queries too, letter by letter: only so does SQLite see that a partial index serves them.
ACCEPTED = text("verdict = 'accept' AND score IS NOT NULL")
VERSIONED = text("version IS NOT NULL")
NO_VERSION = text("n IS NULL")

# SQLite has one size of whole numbers and sorts texts by their letters; of a server both must be asked for.
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
    postgresql_where=ACCEPTED,
)
Index(
    "candidates_by_island",
    candidates.c.run,
    candidates.c.island,
    candidates.c.score.desc(),
    candidates.c.decided,
    candidates.c.k,
    sqlite_where=ACCEPTED,
    postgresql_where=ACCEPTED,
)
Index(
    "candidates_by_version", candidates.c.run, candidates.c.version, sqlite_where=VERSIONED, postgresql_where=VERSIONED
)

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
Index("changes_beside", changes.c.key, changes.c.seq, sqlite_where=NO_VERSION, postgresql_where=NO_VERSION)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", HASH, primary_key=True),
    Column("size", INTEGER, nullable=False),
    Column("is_compressed", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


def insert_for(dialect: str) -> Any:
    """Returns the insert of a dialect that knows `on_conflict_do_update` and `on_conflict_do_nothing`."""
    return postgresql.insert if dialect == "postgresql" else sqlite.insert


def find_version(connection: Connection, name: str) -> int:
    """Returns the schema version of a database, 0 of an empty one.

    Raises:
        SetupError: The database belongs to somebody else.
    """
    tables = inspect(connection).get_table_names()
    if atoll.name in tables:
        version = connection.execute(select(atoll.c.schema_version)).scalar()
        if isinstance(version, int):
            return version
    if tables:
        raise errors.SetupError(f"{name} is a database, but no Atoll store: give another path.")
    return 0


def check_version(current_version: int, name: str, version: int = VERSION) -> None:
    """Refuses what a newer Atoll wrote.

    Raises:
        SetupError: The schema is newer than this program.
    """
    if current_version > version:
        raise errors.SetupError(
            f"{name} was written by a newer Atoll (schema {current_version}, this one knows {version}): "
            "install that one, or give another path."
        )


def create_or_upgrade(
    connection: Connection, name: str, *, version: int = VERSION, upgrades: Mapping[int, Upgrade] = UPGRADES
) -> None:
    """Makes the tables in an empty database, or brings older ones up to date step by step; all or nothing.

    Called inside a write transaction, so that of several processes that come at once one does it.
    """
    current_version = find_version(connection, name)
    check_version(current_version, name, version)
    if current_version == 0:
        metadata.create_all(connection)
        connection.execute(insert(atoll).values(schema_version=version))
        return
    for step in range(current_version, version):
        upgrades[step](connection)
        connection.execute(update(atoll).values(schema_version=step + 1))
