"""Finds database objects that Atoll did not create, such as views and triggers.

The hash chain detects changed rows. A view or trigger could also fake rows or change later writes, so the audit checks
for these too.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table

from atoll.store import event_streams
from atoll.store.database import schema
from atoll.store.records import leases, seals

TABLES = {
    table.name: table
    for metadata in (schema.metadata, event_streams.metadata, seals.metadata, leases.metadata)
    for table in metadata.sorted_tables
}
INDEXES = {str(index.name): table.name for table in TABLES.values() for index in table.indexes}
SQLITE_PREFIX = "sqlite_"  # reserved for SQLite


def find_unexpected_objects(connection: Connection) -> Sequence[str]:
    """Returns descriptions of unexpected objects, e.g. `the trigger t on changes`.

    Checks SQLite only: views, triggers, other tables and indexes, and changed columns. PostgreSQL has its own
    permissions.
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
            yield f"the changed columns of {name}"


def _has_plain_columns(columns: Sequence[Any], table: Table) -> bool:
    """Returns whether a table has exactly its columns, without defaults, computed or hidden columns."""
    properties = {column: (default, hidden) for _, column, _, _, default, _, hidden in columns}
    return properties == {column.name: (None, 0) for column in table.columns}
