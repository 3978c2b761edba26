"""Commands to one run, from any process."""

from collections.abc import Sequence

from sqlalchemy import func, insert, select

from atoll import control
from atoll.candidate import JSON
from atoll.store import schema
from atoll.store.blobs import Blobs, keep
from atoll.store.database import Database
from atoll.store.packing import Packed, pack, unpack
from atoll.store.perseverance import persistently

_rows = schema.commands.c


class StoredInbox:
    """Keeps the commands to one run, numbered from 1; also while the run is not alive."""

    def __init__(self, database: Database, run: int) -> None:
        self._database, self._run, self._blobs = database, run, Blobs(database)

    def post(self, kind: control.Kind, /, **data: JSON) -> int:
        """Leaves a command and returns its number."""
        packed = pack(data)
        return persistently(lambda: self._post(kind, packed))

    def _post(self, kind: str, packed: Packed) -> int:
        with self._database.writing(f"inbox/{self._run}") as connection:
            keep(connection, packed.bodies)
            last = connection.execute(select(func.max(_rows.number)).where(_rows.run == self._run)).scalar()
            number = 1 + (last or 0)
            row = {"run": self._run, "number": number, "kind": kind, "data": packed.text, "links": packed.links}
            connection.execute(insert(schema.commands), row)
        return number

    def read(self, after: int) -> Sequence[control.Command]:
        query = select(_rows.number, _rows.kind, _rows.data, _rows.links)
        query = query.where(_rows.run == self._run, _rows.number > after)
        found = persistently(lambda: self._database.rows(query.order_by(_rows.number)))
        return [
            control.Command(number, kind, unpack(text, links, self._blobs.get)) for number, kind, text, links in found
        ]
