"""Table of runs."""

import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Select, insert, select

from atoll import errors
from atoll.candidate import JSON
from atoll.store.database import schema
from atoll.store.database.database import Database, retry_transaction
from atoll.store.records import seals
from atoll.store.records.blobs import Blobs, insert_blobs
from atoll.store.records.json_codec import PackedJSON, pack, unpack

ID_ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"  # without look-alikes

RUNS_LOCK = "runs"  # held while a run is created

_runs = schema.runs.c


class Run(NamedTuple):
    """Id, time of creation and configuration of a run."""

    id: str
    created_at: datetime
    config: Mapping[str, Any]


def now() -> datetime:
    return datetime.now(UTC)


class Runs:
    """Creates and finds runs."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = now) -> None:
        self._database, self._blobs, self._clock = database, Blobs(database), clock
        self._rng = random.SystemRandom()

    def create(self, run_id: str | None, config: Mapping[str, JSON]) -> str:
        if run_id is not None and not run_id.strip():
            raise errors.SetupError("The run id is empty. Pass another one, or None to generate it.")
        created_at, packed = self._clock(), pack(config)
        seals.create_table(self._database)
        return retry_transaction(lambda: self._create(run_id, created_at, packed))

    def _create(self, run_id: str | None, created_at: datetime, packed: PackedJSON) -> str:
        with self._database.begin_write(RUNS_LOCK) as connection:
            known_ids = set(connection.execute(select(_runs.id)).scalars())
            if run_id in known_ids:
                raise errors.SetupError(f"Run {run_id} exists already in {self._database.name}. Choose another id.")
            while run_id is None or run_id in known_ids:
                run_id = f"{created_at:%Y%m%d-%H%M%S}-{''.join(self._rng.choices(ID_ALPHABET, k=4))}"
            insert_blobs(connection, packed.blobs)
            row = {"id": run_id, "created_at": created_at.isoformat(), "config": packed.text, "links": packed.links}
            number = connection.execute(insert(schema.runs).returning(_runs.number), row).scalar_one()
            sealed_row = (0, run_id, row["created_at"], packed.text, packed.links)
            seals.add_seal(connection, number, seals.RUN, [sealed_row])
        return run_id

    def list_all(self) -> Sequence[Run]:
        """Returns all runs, newest first."""
        return self._fetch(_select().order_by(_runs.number.desc()))

    def get(self, run_id: str) -> Run:
        """Returns a run or raises `NotFound`."""
        runs = self._fetch(_select().where(_runs.id == run_id))
        if not runs:
            raise self._make_not_found(run_id)
        return runs[0]

    def get_number(self, run_id: str) -> int:
        """Returns the number of a run, its key in the other tables, or raises `NotFound`."""
        with self._database.begin_read() as connection:
            number: int | None = connection.execute(select(_runs.number).where(_runs.id == run_id)).scalar()
        if number is None:
            raise self._make_not_found(run_id)
        return number

    def _fetch(self, query: Select[Any]) -> Sequence[Run]:
        return [
            Run(run_id, datetime.fromisoformat(created_at), unpack(config, links, self._blobs.get))
            for run_id, created_at, config, links in self._database.fetch_rows(query)
        ]

    def _make_not_found(self, run_id: str) -> errors.NotFound:
        return errors.NotFound(f"Run {run_id} not found in {self._database.name}.")


def _select() -> Select[Any]:
    return select(_runs.id, _runs.created_at, _runs.config, _runs.links)
