"""Parses store URLs."""

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
    """Returns whether a store URL is a file path."""
    return "://" not in url.removeprefix("sqlite:///") and not _is_mistyped_postgres(url)


def _is_mistyped_postgres(url: str) -> bool:
    """Returns whether a server was meant; as a file name, its password would be shown."""
    return url.partition(":")[0].lower() in POSTGRES_SCHEMES and ":" in url and "://" not in url


def get_path(url: str) -> str:
    return url.removeprefix("sqlite:///")


def open_database(url: str, *, synchronous: sqlite.Synchronous, busy_seconds: float) -> Dialect:
    """Returns a database without opening it.

    Raises:
        SetupError: The URL is invalid.
        MissingExtra: The extra `postgres` is not installed.
    """
    if not url.strip():
        raise errors.SetupError(f"The store URL is empty. Use {URL_FORMS}, or sqlite:// for a store in memory.")
    if is_postgres(url):
        return _open_postgres(url, busy_seconds)
    if _is_mistyped_postgres(url):
        raise errors.SetupError(f"{url.partition(':')[0]}:... is not a store URL. Use {URL_FORMS}.")
    if "://" not in url:
        return sqlite.Sqlite(sqlalchemy.URL.create("sqlite", database=url), synchronous, busy_seconds)
    scheme = url.partition("://")[0]
    try:
        parsed = sqlalchemy.make_url(url)
    except (exc.ArgumentError, ValueError) as error:
        raise errors.SetupError(f"{scheme}://... is not a store URL. Use {URL_FORMS}.") from error
    if parsed.get_backend_name() != "sqlite":
        raise errors.SetupError(f"{scheme} is not supported; stores are SQLite or PostgreSQL. Use {URL_FORMS}.")
    return sqlite.Sqlite(parsed, synchronous, busy_seconds)


def _open_postgres(url: str, busy_seconds: float) -> Dialect:
    try:
        from atoll.store.database import postgres
    except ImportError as error:
        raise errors.MissingExtra("PostgreSQL stores need an extra. Run: pip install 'atoll[postgres]'") from error
    return postgres.Postgres(url, busy_seconds)
