"""All that is peculiar to PostgreSQL. Needs the extra `postgres`."""

from atoll.store.database.postgres.server import Postgres

__all__ = ["Postgres"]
