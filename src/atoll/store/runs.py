"""The runs in a store."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, insert, select

from atoll import errors
from atoll.candidate import JSON
from atoll.store import schema
from atoll.store.blobs import Blobs, keep
from atoll.store.database import Database
from atoll.store.packing import Packed, pack, unpack
from atoll.store.perseverance import persistently

LETTERS = "23456789abcdefghjkmnpqrstvwxyz"  # none that are taken for each other

RUNS = "runs"  # what those lock who create one

_rows = schema.runs.c


class Run(NamedTuple):
    """A run as it was created."""

    id: str
    created_at: datetime
    config: Mapping[str, Any]


def now() -> datetime:
    return datetime.now(UTC)


class Runs:
    """Creates runs and finds them."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = now) -> None:
        self._database, self._blobs, self._clock = database, Blobs(database), clock
        self._rng = random.SystemRandom()

    def create(self, id: str | None, config: Mapping[str, JSON]) -> str:
        if id is not None and not id.strip():
            raise errors.SetupError("The id of a run is empty: choose one, or none at all to get a new one.")
        created_at, packed = self._clock(), pack(config)
        return persistently(lambda: self._create(id, created_at, packed))

    def _create(self, id: str | None, created_at: datetime, packed: Packed) -> str:
        with self._database.writing(RUNS) as connection:
            ids = set(connection.execute(select(_rows.id)).scalars())
            if id in ids:
                raise errors.SetupError(f"There is a run {id} in {self._database.name} already: choose another id.")
            while id is None or id in ids:
                id = f"{created_at:%Y%m%d-%H%M%S}-{''.join(self._rng.choices(LETTERS, k=4))}"
            keep(connection, packed.bodies)
            row = {"id": id, "created_at": created_at.isoformat(), "config": packed.text, "links": packed.links}
            connection.execute(insert(schema.runs), row)
        return id

    def all(self) -> Sequence[Run]:
        """Returns all runs, newest first."""
        return self._fetch(_select().order_by(_rows.number.desc()))

    def get(self, id: str) -> Run:
        """Returns one run.

        Raises:
            NotFound: There is no such run.
        """
        found = self._fetch(_select().where(_rows.id == id))
        if not found:
            raise self._unknown(id)
        return found[0]

    def number(self, id: str) -> int:
        """Returns the number under which the tables know a run.

        Raises:
            NotFound: There is no such run.
        """
        with self._database.reading() as connection:
            found: int | None = connection.execute(select(_rows.number).where(_rows.id == id)).scalar()
        if found is None:
            raise self._unknown(id)
        return found

    def _fetch(self, query: Select[Any]) -> Sequence[Run]:
        return [
            Run(id, datetime.fromisoformat(created_at), unpack(config, links, self._blobs.get))
            for id, created_at, config, links in self._database.rows(query)
        ]

    def _unknown(self, id: str) -> errors.NotFound:
        return errors.NotFound(f"There is no run {id} in {self._database.name}.")


def _select() -> Select[Any]:
    return select(_rows.id, _rows.created_at, _rows.config, _rows.links)
