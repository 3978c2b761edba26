"""PostgreSQL; needs the extra `postgres`."""

from atoll.store.database.postgres.server import Postgres

__all__ = ["Postgres"]
