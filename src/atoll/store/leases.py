"""Who leads which island of a run that several coordinators share: for a while, and until somebody else does.

    leases       one row an island: its owner, until when, and a token that grows with every new owner
    lease_log    every ownership from its beginning to its end
    members      who takes part, with islands or without

Tables of their own beside those of `schema`, made when a run is first shared. All times are the database's.
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

from atoll.store.database import EVERYTHING, Database
from atoll.store.journal import ALL, topic_of

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
_rows = leases.c


class Interval(NamedTuple):
    """One ownership of an island; `until` is None while it lasts."""

    island: int
    token: int
    owner: str
    since: float
    until: float | None


@dataclass(frozen=True, slots=True)
class Standing:
    """How the islands of a run are led at a moment.

    Attributes:
        owned: Islands of this coordinator.
        lost: Those that were its own when it last looked, and are somebody else's.
        free: Those that nobody leads and that are not done.
        num_open: Those that are not done.
        num_members: Coordinators that are alive, this one too.
        bests: The best of each island as its owner told it last, as JSON.
        reason: Why the whole run is over, if it is.
    """

    owned: frozenset[int]
    lost: frozenset[int]
    free: tuple[int, ...]
    num_open: int
    num_members: int
    bests: Mapping[int, str]
    reason: str

    @property
    def fair(self) -> int:
        """How many islands a coordinator leads when all have their share."""
        return -(-self.num_open // max(1, self.num_members))


@dataclass(slots=True)
class Leases:
    """The leases of one coordinator on the islands of one run.

    A lease that is not renewed in time may be taken by others, and from then on its old owner can write nothing more
    about the island: every record is checked against the token (`SharedJournal`).

    Attributes:
        owner: The name of this coordinator.
        seconds: How long a lease lasts without being renewed.
        tokens: What this coordinator holds, by island.
    """

    database: Database
    run: int
    owner: str
    seconds: float
    tokens: dict[int, int] = field(default_factory=dict)
    _lock: Any = field(default_factory=RLock, repr=False)  # a pulse renews beside whoever takes and releases

    def __post_init__(self) -> None:
        with self.database.reading() as connection:
            is_there = inspect(connection).has_table(migrants.name)
        if not is_there:
            with self.database.writing(EVERYTHING) as connection:
                metadata.create_all(connection)

    def open(self, num_islands: int) -> None:
        """Makes the rows of a run, unless somebody did."""
        with self.database.writing(topic_of(self.run)) as connection:
            if connection.execute(select(_rows.island).where(_rows.run == self.run)).first() is None:
                blank = {"run": self.run, "owner": None, "token": 0, "expires": 0.0, "is_done": False}
                connection.execute(insert(leases), [{**blank, "island": each} for each in range(ALL, num_islands)])
                nothing = {"evaluations": 0, "calls": 0, "tokens": 0, "usd": 0.0, "reason": "", "is_ended": False}
                connection.execute(insert(accounts), {"run": self.run, **nothing})

    def beat(self, bests: Mapping[int, str] | None = None) -> Standing:
        """Renews what is held, says so of this coordinator, and looks around."""
        with self._lock:
            return self._beat(bests or {})

    def _beat(self, bests: Mapping[int, str]) -> Standing:
        with self.database.writing(topic_of(self.run)) as connection:
            now = _now(connection)
            self._sign_in(connection, now)
            rows = connection.execute(select(leases).where(_rows.run == self.run, _rows.island != ALL)).all()
            mine = [row.island for row in rows if row.owner == self.owner and self.tokens.get(row.island) == row.token]
            for island in mine:
                best = {"best": bests[island]} if island in bests else {}
                connection.execute(self._own([island]).values(expires=now + self.seconds, **best))
            if ALL in self.tokens:
                connection.execute(self._own([ALL]).values(expires=now + self.seconds))
            alive = select(members.c.owner).where(members.c.run == self.run, members.c.expires > now)
            num_members = len(connection.execute(alive).all())
            reason = connection.execute(select(accounts.c.reason).where(accounts.c.run == self.run)).scalar() or ""
        lost = {island for island in self.tokens if island != ALL}.difference(mine)
        for island in lost:
            del self.tokens[island]
        is_open = [row for row in rows if not row.is_done]
        return Standing(
            owned=frozenset(mine),
            lost=frozenset(lost),
            free=tuple(sorted(row.island for row in is_open if row.owner is None or row.expires < now)),
            num_open=len(is_open),
            num_members=num_members,
            bests={row.island: row.best for row in rows if row.best},
            reason=reason,
        )

    def take(self, islands: Collection[int]) -> Sequence[int]:
        """Takes those of these islands that are free, and returns them."""
        taken = []
        with self._lock, self.database.writing(topic_of(self.run)) as connection:
            now = _now(connection)
            query = select(leases).where(_rows.run == self.run, _rows.island.in_(list(islands)))
            for row in connection.execute(query.order_by(_rows.island)).all():
                if row.is_done or (row.owner is not None and row.expires >= now):
                    continue
                if row.owner is not None:
                    self._log_end(connection, row.island, row.token, row.expires)
                new = {"owner": self.owner, "token": row.token + 1, "expires": now + self.seconds}
                here = and_(_rows.run == self.run, _rows.island == row.island)
                connection.execute(update(leases).where(here).values(new))
                log = {"run": self.run, "island": row.island, "token": row.token + 1, "owner": self.owner, "since": now}
                connection.execute(insert(lease_log), log)
                taken.append((row.island, row.token + 1))
            self.tokens |= dict(taken)
        return [island for island, _ in taken]

    def release(self, islands: Collection[int], *, done: bool = False) -> None:
        """Gives islands back; those that are done are nobody's any more."""
        with self._lock, self.database.writing(topic_of(self.run)) as connection:
            now = _now(connection)
            for island in islands:
                token = self.tokens.pop(island, None)
                if token is not None:
                    here = and_(_rows.run == self.run, _rows.island == island, _rows.token == token)
                    freed = connection.execute(
                        update(leases).where(here, _rows.owner == self.owner).values(owner=None, is_done=done)
                    )
                    if freed.rowcount:
                        self._log_end(connection, island, token, now)

    def end(self, reason: str) -> None:
        """Ends the run for all its coordinators."""
        with self.database.writing(topic_of(self.run)) as connection:
            here = and_(accounts.c.run == self.run, accounts.c.reason == "")
            connection.execute(update(accounts).where(here).values(reason=reason))

    def leave(self) -> None:
        """Gives everything back."""
        self.release(list(self.tokens))
        with self.database.writing(topic_of(self.run)) as connection:
            gone = and_(members.c.run == self.run, members.c.owner == self.owner)
            connection.execute(delete(members).where(gone))

    def _sign_in(self, connection: Connection, now: float) -> None:
        me = and_(members.c.run == self.run, members.c.owner == self.owner)
        row = {"expires": now + self.seconds}
        if not connection.execute(update(members).where(me).values(row)).rowcount:
            connection.execute(insert(members), {"run": self.run, "owner": self.owner, **row})

    def _own(self, islands: Collection[int]) -> Any:
        return update(leases).where(_rows.run == self.run, _rows.island.in_(list(islands)), _rows.owner == self.owner)

    def _log_end(self, connection: Connection, island: int, token: int, until: float) -> None:
        log = lease_log.c
        here = and_(log.run == self.run, log.island == island, log.token == token)
        connection.execute(update(lease_log).where(here).values(until=until))


def audit(database: Database, run: int) -> Sequence[Interval]:
    """Returns every ownership of every island of a run, by island and in the order of their tokens."""
    log = lease_log.c
    query = select(log.island, log.token, log.owner, log.since, log.until).where(log.run == run)
    with database.reading() as connection:
        return [Interval(*row) for row in connection.execute(query.order_by(log.island, log.token)).all()]


def leaders(database: Database, run: int) -> Sequence[str]:
    """Returns the coordinators of a run that are alive; none of one that is not shared."""
    with database.reading() as connection:
        if not inspect(connection).has_table(members.name):
            return []
        now = _now(connection)
        query = select(members.c.owner).where(members.c.run == run, members.c.expires > now)
        return list(connection.execute(query.order_by(members.c.owner)).scalars())


def _now(connection: Connection) -> float:
    return float(connection.execute(_NOW[connection.dialect.name]).scalar_one())
