"""What stands in a database that no Atoll put there: a view, a trigger or a table that could falsify what is read.

A chain of hashes shows what was done to the rows. Whoever can write the file can also plant something that answers in
their place, or that changes what is written later; so whoever verifies looks for both.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table

from atoll.store import event_streams
from atoll.store.database import schema

TABLES = {
    table.name: table for metadata in (schema.metadata, event_streams.metadata) for table in metadata.sorted_tables
}
INDEXES = {str(index.name): table.name for table in TABLES.values() for index in table.indexes}
SQLITE_PREFIX = "sqlite_"  # names that only SQLite itself may give


def find_unexpected_objects(connection: Connection) -> Sequence[str]:
    """Returns all that the schema does not know, in words: `the trigger t on changes`.

    In SQLite: views, triggers, other tables and indexes, and tables of ours with other columns. Elsewhere nothing: a
    server has rights of its own.
    """
    if connection.dialect.name != "sqlite":
        return []
    return [*_find_objects(connection), *_find_changed_columns(connection)]


def _find_objects(connection: Connection) -> Iterator[str]:
    query = "SELECT type, name, tbl_name FROM sqlite_master ORDER BY type, name"
    for kind, name, table in connection.exec_driver_sql(query).all():
        is_expected = (kind == "table" and name in TABLES) or (kind == "index" and INDEXES.get(name) == table)
        if not is_expected and not (kind in ("table", "index") and str(name).startswith(SQLITE_PREFIX)):
            yield f"the {kind} {name}{'' if name == table else f' on {table}'}"


def _find_changed_columns(connection: Connection) -> Iterator[str]:
    for name, table in TABLES.items():
        columns = connection.exec_driver_sql(f"PRAGMA table_xinfo({name})").all()
        if columns and not _has_plain_columns(columns, table):
            yield f"the columns of {name}, which are others"


def _has_plain_columns(columns: Sequence[Any], table: Table) -> bool:
    """Says whether a table has its columns, none of them computed, hidden or filled in by itself."""
    properties = {column: (default, hidden) for _, column, _, _, default, _, hidden in columns}
    return properties == {column.name: (None, 0) for column in table.columns}
