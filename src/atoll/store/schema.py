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

from sqlalchemy import (
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
BESIDE = text("n IS NULL")

metadata = MetaData()

atoll = Table("atoll", metadata, Column("schema_version", Integer, nullable=False))

runs = Table(
    "runs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("created_at", String, nullable=False),
    Column("config", Text, nullable=False),
    Column("links", Text),
)

records = Table(
    "records",
    metadata,
    Column("run", ForeignKey("runs.number"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("step", Integer, nullable=False),
    Column("island", Integer, nullable=False),
    Column("data", Text, nullable=False),
    Column("links", Text),
)

candidates = Table(
    "candidates",
    metadata,
    Column("run", ForeignKey("runs.number"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("is_draft", Boolean, primary_key=True),
    Column("k", Integer, primary_key=True),
    Column("island", Integer, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("score", Double),
    Column("verdict", String),
    Column("version", String),
    Column("decision", Text),
    Column("decided", Integer),
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
    Column("run", ForeignKey("runs.number"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("data", Text, nullable=False),
    Column("links", Text),
)

changes = Table(
    "changes",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("key", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("n", Integer),
    Column("target", Integer),
    Column("value", Text),
    Column("reason", Text, nullable=False),
    Column("author", String, nullable=False),
    Column("at", String, nullable=False),
    Column("token", String, unique=True),
    Column("hash", String(64), nullable=False),
    Column("body", String(64)),
    UniqueConstraint("key", "n"),
)
Index("changes_beside", changes.c.key, changes.c.seq, sqlite_where=BESIDE, postgresql_where=BESIDE)

blobs = Table(
    "blobs",
    metadata,
    Column("sha256", String(64), primary_key=True),
    Column("size", Integer, nullable=False),
    Column("is_compressed", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),
)


def find_version(connection: Connection, name: str) -> int:
    """Returns the schema version of a database, 0 of an empty one.

    Raises:
        SetupError: The database belongs to somebody else.
    """
    tables = inspect(connection).get_table_names()
    if atoll.name in tables:
        found = connection.execute(select(atoll.c.schema_version)).scalar()
        if isinstance(found, int):
            return found
    if tables:
        raise errors.SetupError(f"{name} is a database, but no Atoll store: give another path.")
    return 0


def check(found: int, name: str, version: int = VERSION) -> None:
    """Refuses what a newer Atoll wrote.

    Raises:
        SetupError: The schema is newer than this program.
    """
    if found > version:
        raise errors.SetupError(
            f"{name} was written by a newer Atoll (schema {found}, this one knows {version}): "
            "install that one, or give another path."
        )


def prepare(
    connection: Connection, name: str, *, version: int = VERSION, upgrades: Mapping[int, Upgrade] = UPGRADES
) -> None:
    """Makes the tables in an empty database, or brings older ones up to date step by step; all or nothing.

    Called inside a write transaction, so that of several processes that come at once one does it.
    """
    found = find_version(connection, name)
    check(found, name, version)
    if found == 0:
        metadata.create_all(connection)
        connection.execute(insert(atoll).values(schema_version=version))
        return
    for step in range(found, version):
        upgrades[step](connection)
        connection.execute(update(atoll).values(schema_version=step + 1))
