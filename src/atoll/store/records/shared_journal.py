"""Journal of a shared run. Each coordinator writes the records of the islands that it has leased."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from atoll import errors, journal
from atoll.evaluation import Cost
from atoll.store.database import schema
from atoll.store.database.database import PreparedStatement
from atoll.store.records.journal import ALL_ISLANDS, StoredJournal, fetch_last_seq
from atoll.store.records.leases import Leases, accounts, leases, migrants

_USAGE_COLUMNS = ("evaluations", "calls", "tokens", "usd")
_records = schema.records.c


@dataclass(frozen=True, slots=True)
class SharedUsage:
    """Usage of all coordinators, as of the last write; `reason` is why the run ended, or empty."""

    evaluations: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    reason: str = ""


class Migrant(NamedTuple):
    """Function that migrates to an island of another coordinator, as plain data."""

    number: int
    target: int
    data: Mapping[str, Any]


class SharedJournal(StoredJournal):
    """Writes the records of one coordinator while its leases are valid; reads the records of its islands.

    The transaction of the records also checks the leases, adds up the usage, and sends and removes migrants.

    Attributes:
        usage: Usage of all coordinators.
    """

    def __init__(self, own_leases: Leases) -> None:
        super().__init__(own_leases.database, own_leases.run_number, is_shared=True)
        self._leases, self.usage = own_leases, SharedUsage()
        engine, columns = own_leases.database.engine, accounts.c
        conditions = [leases.c[name] == bindparam(name) for name in ("run", "island", "owner")]
        self._token_query = PreparedStatement(
            engine, select(leases.c.token).where(*conditions), ["run", "island", "owner"]
        )
        increments = {name: columns[name] + bindparam(f"more_{name}") for name in _USAGE_COLUMNS}
        update_usage = update(accounts).where(columns.run == bindparam("its_run")).values(increments)
        self._add_usage = PreparedStatement(
            engine, update_usage, [*(f"more_{name}" for name in _USAGE_COLUMNS), "its_run"]
        )
        usage_query = select(*(columns[name] for name in (*_USAGE_COLUMNS, "reason"))).where(
            columns.run == bindparam("run")
        )
        self._usage_query = PreparedStatement(engine, usage_query, ["run"])
        self._outgoing: list[tuple[int, str]] = []
        self._incoming: dict[tuple[int, str], int] = {}

    def write(self, *records: journal.Record) -> None:
        """Commits all records in one transaction or raises.

        Skips `ended` records, because the end of one evolver is not the end of the run; see `write_end`.

        Raises:
            Conflict: Another coordinator has taken over one of the islands.
        """
        super().write(*(record for record in records if record.kind != "ended"))
        if any(record.kind == "applied" for record in records):
            self._outgoing.clear()

    def write_end(self, reason: str) -> None:
        """Writes the end of the run, once.

        Raises:
            Conflict: Another coordinator has written it.
        """
        super().write(journal.Record("ended", 0, ALL_ISLANDS, {"reason": reason}))

    def read(self, island: int | None = None) -> Iterator[journal.Record]:
        """Yields the records of the leased islands, and those about all islands."""
        islands = (*self._leases.tokens, ALL_ISLANDS) if island is None else (island, ALL_ISLANDS)
        return self._iterate(fetch_last_seq(self._database, self._run_number), (_records.island.in_(islands),))

    def get_last_steps(self) -> Mapping[int, int]:
        """Returns the last issued iteration of each island that has one."""
        query = select(_records.island, func.max(_records.step)).where(
            _records.run == self._run_number, _records.kind == "begun"
        )
        with self._database.begin_read() as connection:
            return dict(connection.execute(query.group_by(_records.island)).all())

    def send(self, target: int, data: Mapping[str, Any]) -> None:
        """Queues a migrant for another coordinator's island; it is sent with the current iteration."""
        self._outgoing.append((target, json.dumps(data)))

    def read_arrivals(self, islands: Collection[int]) -> Sequence[Migrant]:
        """Returns the migrants for these islands; a `migrated` record removes them from the queue."""
        query = select(migrants.c.number, migrants.c.target, migrants.c.data)
        condition = and_(migrants.c.run == self._run_number, migrants.c.target.in_(list(islands)))
        with self._database.begin_read() as connection:
            rows = connection.execute(query.where(condition).order_by(migrants.c.number)).all()
        arrivals = [Migrant(migrant_number, target, json.loads(data)) for migrant_number, target, data in rows]
        self._incoming = {(migrant.target, migrant.data["id"]): migrant.number for migrant in arrivals}
        return arrivals

    def _check_ownership(self, connection: Connection, records: Sequence[journal.Record]) -> None:
        islands = {record.island for record in records if record.island != ALL_ISLANDS or record.kind == "founded"}
        cursor = connection.connection.cursor()
        for island in sorted(islands):
            tokens = [
                row[0] for row in self._token_query.fetch_rows(cursor, self._run_number, island, self._leases.owner)
            ]
            if tokens != [self._leases.tokens.get(island)]:
                raise errors.Conflict(f"Another coordinator has taken over island {island}. Nothing was written.")
        if any(record.kind == "ended" for record in records):
            self._mark_ended(connection)
        self._count_usage(cursor, records)
        self._move_migrants(connection, records)

    def _mark_ended(self, connection: Connection) -> None:
        """Marks the run as ended in the transaction of the `ended` record, so that a crash cannot separate them."""
        condition = and_(accounts.c.run == self._run_number, accounts.c.is_ended.is_(False))
        if not connection.execute(update(accounts).where(condition).values(is_ended=True)).rowcount:
            raise errors.Conflict("Another coordinator has ended this run already.")

    def _count_usage(self, cursor: Any, records: Sequence[journal.Record]) -> None:
        cost = Cost()
        evaluations = 0
        for record in records:
            if record.kind == "replied":
                cost += Cost(*record.data.get("usage", ())) + Cost(calls=1)
            if record.kind == "founded" or (record.kind == "judged" and record.data["paid"]):
                evaluations += 1 + record.data["evaluation"].get("repeats", 0)
        if evaluations or cost.calls:
            tokens = cost.tokens_in + cost.tokens_out
            self._add_usage.execute(cursor, [(evaluations, cost.calls, tokens, cost.usd, self._run_number)])
        self.usage = SharedUsage(*self._usage_query.fetch_rows(cursor, self._run_number)[0])

    def _move_migrants(self, connection: Connection, records: Sequence[journal.Record]) -> None:
        if self._outgoing and any(record.kind == "applied" for record in records):
            rows = [{"run": self._run_number, "target": target, "data": data} for target, data in self._outgoing]
            connection.execute(insert(migrants), rows)
        arrived = [(record.island, record.data["fn"]["id"]) for record in records if record.kind == "migrated"]
        numbers = [migrant_number for key in arrived if (migrant_number := self._incoming.get(key)) is not None]
        if numbers:
            connection.execute(delete(migrants).where(migrants.c.number.in_(numbers)))
