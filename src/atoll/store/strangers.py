"""What stands in a database that no Atoll put there: a view, a trigger or a table that could falsify what is read.

A chain of hashes shows what was done to the rows. Whoever can write the file can also plant something that answers in
their place, or that changes what is written later; so whoever verifies looks for both.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Table

from atoll.store import schema, timeline

TABLES = {table.name: table for each in (schema.metadata, timeline.metadata) for table in each.sorted_tables}
INDEXES = {str(index.name): table.name for table in TABLES.values() for index in table.indexes}
OWN = "sqlite_"  # names that only SQLite itself may give


def strangers(connection: Connection) -> Sequence[str]:
    """Returns all that the schema does not know, in words: `the trigger t on changes`.

    In SQLite: views, triggers, other tables and indexes, and tables of ours with other columns. Elsewhere nothing: a
    server has rights of its own.
    """
    if connection.dialect.name != "sqlite":
        return []
    return [*_objects(connection), *_columns(connection)]


def _objects(connection: Connection) -> Iterator[str]:
    listed = "SELECT type, name, tbl_name FROM sqlite_master ORDER BY type, name"
    for kind, name, table in connection.exec_driver_sql(listed).all():
        is_ours = (kind == "table" and name in TABLES) or (kind == "index" and INDEXES.get(name) == table)
        if not is_ours and not (kind in ("table", "index") and str(name).startswith(OWN)):
            yield f"the {kind} {name}{'' if name == table else f' on {table}'}"


def _columns(connection: Connection) -> Iterator[str]:
    for name, table in TABLES.items():
        found = connection.exec_driver_sql(f"PRAGMA table_xinfo({name})").all()
        if found and not _is_plain(found, table):
            yield f"the columns of {name}, which are others"


def _is_plain(found: Sequence[Any], table: Table) -> bool:
    """Says whether a table has its columns, none of them computed, hidden or filled in by itself."""
    names = {column: (default, hidden) for _, column, _, _, default, _, hidden in found}
    return names == {column.name: (None, 0) for column in table.columns}
