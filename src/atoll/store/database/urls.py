"""From what somebody typed to the database it means."""

import sqlalchemy
from sqlalchemy import exc

from atoll import errors
from atoll.store.database import sqlite
from atoll.store.database.dialect import Dialect

POSTGRES_SCHEMES = ("postgresql", "postgres", "postgresql+psycopg")
URL_FORMS = "a path, sqlite:///PATH or postgresql://USER@HOST/DATABASE"


def is_postgres(url: str) -> bool:
    return url.partition("://")[0].lower() in POSTGRES_SCHEMES and "://" in url


def is_file_path(url: str) -> bool:
    """Says whether a store is a file that is or is not there, rather than something that answers."""
    return "://" not in url.removeprefix("sqlite:///") and not _is_mistyped_postgres(url)


def _is_mistyped_postgres(url: str) -> bool:
    """Says whether a server was meant: taken for the name of a file, its password would be shown."""
    return url.partition(":")[0].lower() in POSTGRES_SCHEMES and ":" in url and "://" not in url


def get_path(url: str) -> str:
    """Returns the path of a store that is a file."""
    return url.removeprefix("sqlite:///")


def open_database(url: str, *, synchronous: sqlite.Synchronous, busy_seconds: float) -> Dialect:
    """Returns a database that is not yet opened.

    Raises:
        SetupError: That is no address of one.
        MissingExtra: What talks to PostgreSQL is not installed.
    """
    if not url.strip():
        raise errors.SetupError(f"The store has no name: give {URL_FORMS}; sqlite:// is one in memory.")
    if is_postgres(url):
        return _open_postgres(url, busy_seconds)
    if _is_mistyped_postgres(url):
        raise errors.SetupError(f"{url.partition(':')[0]}:... is no address of a store: give {URL_FORMS}.")
    if "://" not in url:
        return sqlite.Sqlite(sqlalchemy.URL.create("sqlite", database=url), synchronous, busy_seconds)
    scheme = url.partition("://")[0]
    try:
        parsed = sqlalchemy.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise errors.SetupError(f"{scheme}://... is no address of a store: give {URL_FORMS}.") from error
    if parsed.get_backend_name() != "sqlite":
        raise errors.SetupError(f"Atoll keeps its store in SQLite or PostgreSQL, not in {scheme}: give {URL_FORMS}.")
    return sqlite.Sqlite(parsed, synchronous, busy_seconds)


def _open_postgres(url: str, busy_seconds: float) -> Dialect:
    try:
        from atoll.store.database import postgres
    except ImportError as error:
        raise errors.MissingExtra(
            "What talks to PostgreSQL is not installed: pip install 'atoll[postgres]'."
        ) from error
    return postgres.Postgres(url, busy_seconds)
