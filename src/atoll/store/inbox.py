"""Commands to one run, from any process."""

from collections.abc import Sequence

from sqlalchemy import func, insert, select

from atoll import control
from atoll.candidate import JSON
from atoll.store import schema
from atoll.store.blobs import Blobs, insert_blobs
from atoll.store.database import Database
from atoll.store.packing import PackedJSON, pack, unpack
from atoll.store.perseverance import retry_transaction

_commands = schema.commands.c


class StoredInbox:
    """Keeps the commands to one run, numbered from 1; also while the run is not alive."""

    def __init__(self, database: Database, run_number: int) -> None:
        self._database, self._run_number, self._blobs = database, run_number, Blobs(database)

    def post(self, kind: control.CommandKind, /, **data: JSON) -> int:
        """Leaves a command and returns its number."""
        packed = pack(data)
        return retry_transaction(lambda: self._post(kind, packed))

    def _post(self, kind: str, packed: PackedJSON) -> int:
        with self._database.begin_write(f"inbox/{self._run_number}") as connection:
            insert_blobs(connection, packed.blobs)
            last_number = connection.execute(select(func.max(_commands.number)).where(_commands.run == self._run_number)).scalar()
            command_number = 1 + (last_number or 0)
            row = {"run": self._run_number, "number": command_number, "kind": kind, "data": packed.text, "links": packed.links}
            connection.execute(insert(schema.commands), row)
        return command_number

    def read(self, after: int) -> Sequence[control.Command]:
        query = select(_commands.number, _commands.kind, _commands.data, _commands.links)
        query = query.where(_commands.run == self._run_number, _commands.number > after)
        rows = retry_transaction(lambda: self._database.fetch_rows(query.order_by(_commands.number)))
        return [
            control.Command(command_number, kind, unpack(text, links, self._blobs.get)) for command_number, kind, text, links in rows
        ]
