"""The journal of a run that several coordinators write: each of its own islands, and only while they are its own."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, select, update

from atoll import errors, journal
from atoll.evaluation import Cost
from atoll.store import schema
from atoll.store.database import Prepared
from atoll.store.journal import ALL, StoredJournal
from atoll.store.leases import Leases, accounts, leases, migrants

_COUNTED = ("evaluations", "calls", "tokens", "usd")
_records = schema.records.c


@dataclass(frozen=True, slots=True)
class Totals:
    """What all coordinators together have used, as this one last saw it; `reason` says why all is over, if it is."""

    evaluations: int = 0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0
    reason: str = ""


class Migrant(NamedTuple):
    """A function on its way to an island of another coordinator, as plain data."""

    number: int
    target: int
    data: Mapping[str, Any]


class SharedJournal(StoredJournal):
    """Writes what one coordinator finds, as long as its leases hold; reads what concerns its islands.

    In one transaction with the records: the check of the leases, what all together have used, the functions that
    leave for islands of others, and those that have arrived.

    Attributes:
        totals: What all together have used.
    """

    def __init__(self, held: Leases) -> None:
        super().__init__(held.database, held.run, is_shared=True)
        self._held, self.totals = held, Totals()
        engine, rows = held.database.engine, accounts.c
        here = [leases.c[name] == bindparam(name) for name in ("run", "island", "owner")]
        self._token = Prepared(engine, select(leases.c.token).where(*here), ["run", "island", "owner"])
        added = {name: rows[name] + bindparam(f"more_{name}") for name in _COUNTED}
        counted = update(accounts).where(rows.run == bindparam("its_run")).values(added)
        self._add = Prepared(engine, counted, [*(f"more_{name}" for name in _COUNTED), "its_run"])
        totals = select(*(rows[name] for name in (*_COUNTED, "reason"))).where(rows.run == bindparam("run"))
        self._totals = Prepared(engine, totals, ["run"])
        self._leaving: list[tuple[int, str]] = []
        self._arriving: dict[tuple[int, str], int] = {}

    def write(self, *records: journal.Record) -> None:
        """Commits all records in one transaction or raises.

        The end of one evolver is not the end of the run: `ended` is left to whoever closes it.

        Raises:
            Conflict: An island that they are about is somebody else's by now.
        """
        super().write(*(record for record in records if record.kind != "ended"))
        if any(record.kind == "applied" for record in records):
            self._leaving.clear()

    def write_end(self, reason: str) -> None:
        """Writes the end of the whole run, once.

        Raises:
            Conflict: Another coordinator has written it.
        """
        super().write(journal.Record("ended", 0, ALL, {"reason": reason}))

    def read(self, island: int | None = None) -> Iterator[journal.Record]:
        """Yields the records of the islands that are held, and those that concern all."""
        islands = (*self._held.tokens, ALL) if island is None else (island, ALL)
        with self._database.reading() as connection:
            last = connection.execute(select(func.max(_records.seq)).where(_records.run == self._run)).scalar() or 0
        return self._read(last, (_records.island.in_(islands),))

    def last_steps(self) -> Mapping[int, int]:
        """Returns the last step that was begun on each island, of all that have one."""
        query = select(_records.island, func.max(_records.step)).where(
            _records.run == self._run, _records.kind == "begun"
        )
        with self._database.reading() as connection:
            return dict(connection.execute(query.group_by(_records.island)).all())

    def send(self, target: int, data: Mapping[str, Any]) -> None:
        """Has a function leave for an island of somebody else, with the step that is being applied."""
        self._leaving.append((target, json.dumps(data)))

    def arrivals(self, islands: Collection[int]) -> Sequence[Migrant]:
        """Returns the functions that wait for these islands; written down as migrated, they wait no more."""
        query = select(migrants.c.number, migrants.c.target, migrants.c.data)
        here = and_(migrants.c.run == self._run, migrants.c.target.in_(list(islands)))
        with self._database.reading() as connection:
            rows = connection.execute(query.where(here).order_by(migrants.c.number)).all()
        found = [Migrant(number, target, json.loads(data)) for number, target, data in rows]
        self._arriving = {(each.target, each.data["id"]): each.number for each in found}
        return found

    def _check_right(self, connection: Connection, records: Sequence[journal.Record]) -> None:
        about = {record.island for record in records if record.island != ALL or record.kind == "founded"}
        cursor = connection.connection.cursor()
        for island in sorted(about):
            tokens = [row[0] for row in self._token.rows(cursor, self._run, island, self._held.owner)]
            if tokens != [self._held.tokens.get(island)]:
                raise errors.Conflict(f"Island {island} is led by another coordinator by now: nothing was written.")
        if any(record.kind == "ended" for record in records):
            self._close(connection)
        self._account(cursor, records)
        self._travel(connection, records)

    def _close(self, connection: Connection) -> None:
        """Says that the end is written, with it: one who dies between the two would leave a run without an end."""
        here = and_(accounts.c.run == self._run, accounts.c.is_ended.is_(False))
        if not connection.execute(update(accounts).where(here).values(is_ended=True)).rowcount:
            raise errors.Conflict("Another coordinator has written the end of this run.")

    def _account(self, cursor: Any, records: Sequence[journal.Record]) -> None:
        used = Cost()
        evaluations = 0
        for record in records:
            if record.kind == "replied":
                used += Cost(*record.data.get("usage", ())) + Cost(calls=1)
            evaluations += record.kind == "founded" or (record.kind == "judged" and record.data["paid"])
        if evaluations or used.calls:
            tokens = used.tokens_in + used.tokens_out
            self._add.run(cursor, [(evaluations, used.calls, tokens, used.usd, self._run)])
        self.totals = Totals(*self._totals.rows(cursor, self._run)[0])

    def _travel(self, connection: Connection, records: Sequence[journal.Record]) -> None:
        if self._leaving and any(record.kind == "applied" for record in records):
            rows = [{"run": self._run, "target": target, "data": data} for target, data in self._leaving]
            connection.execute(insert(migrants), rows)
        came = [(record.island, record.data["fn"]["id"]) for record in records if record.kind == "migrated"]
        numbers = [number for each in came if (number := self._arriving.get(each)) is not None]
        if numbers:
            connection.execute(delete(migrants).where(migrants.c.number.in_(numbers)))
