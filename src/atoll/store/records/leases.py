"""Leases: which coordinator owns which island of a shared run, and until when.

    leases       one row per island: owner, expiry time, and a token that grows with every new owner
    lease_log    every ownership with its start and end
    members      live coordinators, with or without islands
    accounts     usage and end of the run
    migrants     functions on their way to an island of another coordinator

The tables are created with the first shared run; they are not part of `schema`. All times are the database's.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, NamedTuple

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    and_,
    delete,
    insert,
    inspect,
    select,
    text,
    update,
)

from atoll.store.database.database import GLOBAL_LOCK, Database
from atoll.store.records.journal import ALL_ISLANDS, get_run_topic

metadata = MetaData()
leases = Table(
    "leases",
    metadata,
    Column("run", Integer, primary_key=True),
    Column("island", Integer, primary_key=True, autoincrement=False),
    Column("owner", String),
    Column("token", Integer, nullable=False),
    Column("expires", Double, nullable=False),
    Column("is_done", Boolean, nullable=False),
    Column("best", Text),
)
lease_log = Table(
    "lease_log",
    metadata,
    Column("run", Integer, primary_key=True),
    Column("island", Integer, primary_key=True, autoincrement=False),
    Column("token", Integer, primary_key=True, autoincrement=False),
    Column("owner", String, nullable=False),
    Column("since", Double, nullable=False),
    Column("until", Double),
)
members = Table(
    "members",
    metadata,
    Column("run", Integer, primary_key=True),
    Column("owner", String, primary_key=True),
    Column("expires", Double, nullable=False),
)
accounts = Table(
    "accounts",
    metadata,
    Column("run", Integer, primary_key=True, autoincrement=False),
    Column("evaluations", Integer, nullable=False),
    Column("calls", Integer, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("usd", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("is_ended", Boolean, nullable=False),
)
migrants = Table(
    "migrants",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("run", Integer, nullable=False, index=True),
    Column("target", Integer, nullable=False),
    Column("data", Text, nullable=False),
)

_NOW = {
    "sqlite": text("SELECT (julianday('now') - 2440587.5) * 86400.0"),
    "postgresql": text("SELECT extract(epoch FROM clock_timestamp())::double precision"),
}
_leases = leases.c


class LeaseInterval(NamedTuple):
    """Ownership of an island; `until` is None while it lasts."""

    island: int
    token: int
    owner: str
    since: float
    until: float | None


@dataclass(frozen=True, slots=True)
class LeaseStatus:
    """Leases of a run at one time.

    Attributes:
        owned: Islands of this coordinator.
        lost: Islands that this coordinator has lost since its last renewal.
        free: Islands without an owner that are not done.
        num_open: Number of islands that are not done.
        num_members: Number of live coordinators, including this one.
        bests: Best candidate of each island as JSON, as last reported by its owner.
        reason: Why the run ended, or empty.
    """

    owned: frozenset[int]
    lost: frozenset[int]
    free: tuple[int, ...]
    num_open: int
    num_members: int
    bests: Mapping[int, str]
    reason: str

    @property
    def fair_share(self) -> int:
        """Number of islands per coordinator if all have an equal share."""
        return -(-self.num_open // max(1, self.num_members))


@dataclass(slots=True)
class Leases:
    """Leases of one coordinator on the islands of one run.

    Other coordinators can take over an expired lease. From then on the old owner cannot write records of the island,
    because `SharedJournal` checks the token of every record.

    Attributes:
        owner: Name of this coordinator.
        lease_seconds: Duration of a lease without renewal.
        tokens: Tokens of this coordinator, by island.
    """

    database: Database
    run_number: int
    owner: str
    lease_seconds: float
    tokens: dict[int, int] = field(default_factory=dict)
    _lock: Any = field(default_factory=RLock, repr=False)  # a heartbeat thread renews in parallel

    def __post_init__(self) -> None:
        with self.database.begin_read() as connection:
            has_tables = inspect(connection).has_table(migrants.name)
        if not has_tables:
            with self.database.begin_write(GLOBAL_LOCK) as connection:
                metadata.create_all(connection)

    def create_rows(self, num_islands: int) -> None:
        """Creates the rows of a run if they do not exist."""
        with self.database.begin_write(get_run_topic(self.run_number)) as connection:
            if connection.execute(select(_leases.island).where(_leases.run == self.run_number)).first() is None:
                empty_lease = {"run": self.run_number, "owner": None, "token": 0, "expires": 0.0, "is_done": False}
                connection.execute(
                    insert(leases), [{**empty_lease, "island": island} for island in range(ALL_ISLANDS, num_islands)]
                )
                zero_usage = {"evaluations": 0, "calls": 0, "tokens": 0, "usd": 0.0, "reason": "", "is_ended": False}
                connection.execute(insert(accounts), {"run": self.run_number, **zero_usage})

    def renew(self, bests: Mapping[int, str] | None = None) -> LeaseStatus:
        """Renews all leases and the membership; returns the status of all islands."""
        with self._lock:
            return self._renew(bests or {})

    def _renew(self, bests: Mapping[int, str]) -> LeaseStatus:
        with self.database.begin_write(get_run_topic(self.run_number)) as connection:
            now = _now(connection)
            self._register_member(connection, now)
            rows = connection.execute(
                select(leases).where(_leases.run == self.run_number, _leases.island != ALL_ISLANDS)
            ).all()
            owned_islands = [
                row.island for row in rows if row.owner == self.owner and self.tokens.get(row.island) == row.token
            ]
            for island in owned_islands:
                best = {"best": bests[island]} if island in bests else {}
                connection.execute(self._update_owned([island]).values(expires=now + self.lease_seconds, **best))
            if ALL_ISLANDS in self.tokens:
                connection.execute(self._update_owned([ALL_ISLANDS]).values(expires=now + self.lease_seconds))
            members_query = select(members.c.owner).where(members.c.run == self.run_number, members.c.expires > now)
            num_members = len(connection.execute(members_query).all())
            reason = (
                connection.execute(select(accounts.c.reason).where(accounts.c.run == self.run_number)).scalar() or ""
            )
        lost = {island for island in self.tokens if island != ALL_ISLANDS}.difference(owned_islands)
        for island in lost:
            del self.tokens[island]
        open_rows = [row for row in rows if not row.is_done]
        return LeaseStatus(
            owned=frozenset(owned_islands),
            lost=frozenset(lost),
            free=tuple(sorted(row.island for row in open_rows if row.owner is None or row.expires < now)),
            num_open=len(open_rows),
            num_members=num_members,
            bests={row.island: row.best for row in rows if row.best},
            reason=reason,
        )

    def acquire(self, islands: Collection[int]) -> Sequence[int]:
        """Takes the free ones of these islands and returns them."""
        taken = []
        with self._lock, self.database.begin_write(get_run_topic(self.run_number)) as connection:
            now = _now(connection)
            query = select(leases).where(_leases.run == self.run_number, _leases.island.in_(list(islands)))
            for row in connection.execute(query.order_by(_leases.island)).all():
                if row.is_done or (row.owner is not None and row.expires >= now):
                    continue
                if row.owner is not None:
                    self._log_end(connection, row.island, row.token, row.expires)
                new_lease = {"owner": self.owner, "token": row.token + 1, "expires": now + self.lease_seconds}
                condition = and_(_leases.run == self.run_number, _leases.island == row.island)
                connection.execute(update(leases).where(condition).values(new_lease))
                log_row = {"run": self.run_number, "island": row.island, "token": row.token + 1, "owner": self.owner}
                connection.execute(insert(lease_log), {**log_row, "since": now})
                taken.append((row.island, row.token + 1))
            self.tokens |= dict(taken)
        return [island for island, _ in taken]

    def release(self, islands: Collection[int], *, is_done: bool = False) -> None:
        """Gives islands back; done islands cannot be taken again."""
        with self._lock, self.database.begin_write(get_run_topic(self.run_number)) as connection:
            now = _now(connection)
            for island in islands:
                token = self.tokens.pop(island, None)
                if token is not None:
                    condition = and_(_leases.run == self.run_number, _leases.island == island, _leases.token == token)
                    result = connection.execute(
                        update(leases).where(condition, _leases.owner == self.owner).values(owner=None, is_done=is_done)
                    )
                    if result.rowcount:
                        self._log_end(connection, island, token, now)

    def end_run(self, reason: str) -> None:
        """Ends the run for all its coordinators."""
        with self.database.begin_write(get_run_topic(self.run_number)) as connection:
            condition = and_(accounts.c.run == self.run_number, accounts.c.reason == "")
            connection.execute(update(accounts).where(condition).values(reason=reason))

    def leave(self) -> None:
        """Releases all islands and ends the membership."""
        self.release(list(self.tokens))
        with self.database.begin_write(get_run_topic(self.run_number)) as connection:
            condition = and_(members.c.run == self.run_number, members.c.owner == self.owner)
            connection.execute(delete(members).where(condition))

    def _register_member(self, connection: Connection, now: float) -> None:
        condition = and_(members.c.run == self.run_number, members.c.owner == self.owner)
        row = {"expires": now + self.lease_seconds}
        if not connection.execute(update(members).where(condition).values(row)).rowcount:
            connection.execute(insert(members), {"run": self.run_number, "owner": self.owner, **row})

    def _update_owned(self, islands: Collection[int]) -> Any:
        return update(leases).where(
            _leases.run == self.run_number, _leases.island.in_(list(islands)), _leases.owner == self.owner
        )

    def _log_end(self, connection: Connection, island: int, token: int, until: float) -> None:
        log_columns = lease_log.c
        condition = and_(log_columns.run == self.run_number, log_columns.island == island, log_columns.token == token)
        connection.execute(update(lease_log).where(condition).values(until=until))


def list_intervals(database: Database, run_number: int) -> Sequence[LeaseInterval]:
    """Returns all ownerships of the islands of a run, by island and token."""
    columns = [lease_log.c[name] for name in LeaseInterval._fields]
    query = select(*columns).where(lease_log.c.run == run_number).order_by(lease_log.c.island, lease_log.c.token)
    return [LeaseInterval(*row) for row in database.fetch_rows(query)]


def list_coordinators(database: Database, run_number: int) -> Sequence[str]:
    """Returns the live coordinators of a run; none if the run is not shared."""
    with database.begin_read() as connection:
        if not inspect(connection).has_table(members.name):
            return []
        now = _now(connection)
        query = select(members.c.owner).where(members.c.run == run_number, members.c.expires > now)
        return list(connection.execute(query.order_by(members.c.owner)).scalars())


def _now(connection: Connection) -> float:
    return float(connection.execute(_NOW[connection.dialect.name]).scalar_one())
