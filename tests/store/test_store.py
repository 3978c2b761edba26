"""Opening and closing stores, runs, schema and database errors."""

import re
import sqlite3
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from sqlalchemy import Connection

from atoll import errors, store
from atoll.journal import Record
from atoll.store.database import database, schema
from tests.store import samples, workers


def kinds(opened: store.Store, run: str) -> list[str]:
    return [record.kind for record in opened.journal(run).read()]


def test_open_by_path_and_url(tmp_path):
    for address in (tmp_path / "a.db", str(tmp_path / "b.db"), f"sqlite:///{tmp_path}/c.db", "sqlite://"):
        with store.open(address) as opened:
            assert opened.create_run("run") == "run"
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a.db", "b.db", "c.db"]


def test_store_in_memory_is_shared_by_threads():
    with store.open("sqlite://") as opened:
        journal = opened.journal(opened.create_run("run"))
        threads = [threading.Thread(target=journal.write, args=samples.small_run()[:2]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert kinds(opened, "run") == ["founded", "judged"] * 4


def test_stores_in_memory_are_independent():
    with store.open("sqlite://") as one, store.open("sqlite://") as other:
        one.create_run("run")
        assert not other.list_runs()


def test_close_leaves_only_the_file(tmp_path, path):
    opened = store.open(path)
    opened.journal(opened.create_run("run")).write(*samples.small_run())
    opened.lock_run("run")
    assert len(list(tmp_path.iterdir())) > 1
    opened.close()
    assert [item.name for item in tmp_path.iterdir()] == ["atoll.db"]


def test_closed_store_raises(url):
    opened = store.open(url)
    journal = opened.journal(opened.create_run("run"))
    opened.close()
    opened.close()
    with pytest.raises(errors.SetupError, match="closed"):
        journal.write(samples.founded())
    with pytest.raises(errors.SetupError, match="closed"):
        opened.list_runs()


def test_reopened_store_has_all_records(url):
    with store.open(url) as opened:
        opened.journal(opened.create_run("run", {"seed": 7})).write(*samples.small_run())
        before = list(opened.export("run"))
    with store.open(url) as opened:
        assert list(opened.journal("run").read()) == samples.small_run()
        assert list(opened.export("run")) == before


def test_processes_can_create_a_store_at_once(url):
    with ExitStack() as stack:
        moment = time.time() + 1.0
        workers_ = [stack.enter_context(workers.running(workers.open_at_once, url, moment)) for _ in range(4)]
        ids = {pipe.recv() for _, pipe in workers_}
    with store.open(url) as opened:
        assert {run.id for run in opened.list_runs()} == ids
    assert len(ids) == 4


def test_synchronous_full_reaches_every_connection(path):
    with store.open(path, synchronous="FULL") as full:
        for lend in (full.database.begin_write, full.database.begin_read):
            with lend() as connection:
                assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


class TestRuns:
    def test_generated_ids_are_readable_and_unique(self, any_store):
        ids = [any_store.create_run() for _ in range(20)]
        assert all(re.fullmatch(r"\d{8}-\d{6}-[a-z0-9]{4}", id) for id in ids)
        assert len(set(ids)) == 20

    def test_runs_are_listed_newest_first(self, any_store):
        any_store.create_run("old", {"seed": 1})
        any_store.create_run("new", {"prompt": "long " * 5000})
        assert [(run.id, dict(run.config)) for run in any_store.list_runs()] == [
            ("new", {"prompt": "long " * 5000}),
            ("old", {"seed": 1}),
        ]

    def test_duplicate_id_is_rejected(self, any_store):
        any_store.create_run("run")
        with pytest.raises(errors.SetupError, match="already"):
            any_store.create_run("run")
        assert len(any_store.list_runs()) == 1

    def test_empty_id_is_rejected(self, any_store):
        with pytest.raises(errors.SetupError, match="empty"):
            any_store.create_run(" ")

    @pytest.mark.parametrize("ask", ["journal", "candidates", "inbox", "lock_run", "export"])
    def test_unknown_run_is_not_found(self, any_store, ask):
        with pytest.raises(errors.NotFound, match="Run missing not found"):
            getattr(any_store, ask)("missing")


class TestSchema:
    def test_newer_schema_is_rejected(self, path):
        store.open(path).close()
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("UPDATE atoll SET schema_version = 99")
        with pytest.raises(errors.SetupError, match=r"newer Atoll wrote .* \(schema 99.*use another path"):
            store.open(path)

    def test_older_schema_is_upgraded_in_steps(self, opened):
        applied_steps = []

        def first(connection: Connection) -> None:
            connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN color TEXT")
            applied_steps.append(1)

        def second(connection: Connection) -> None:
            connection.exec_driver_sql("UPDATE runs SET color = 'blue'")
            applied_steps.append(2)

        opened.create_run("run")
        steps = {schema.VERSION: first, schema.VERSION + 1: second}
        with opened.database.begin_write(database.GLOBAL_LOCK) as connection:
            schema.create_or_upgrade(connection, "it", version=schema.VERSION + 2, upgrades=steps)
        with opened.database.begin_read() as connection:
            assert schema.find_version(connection, "it") == schema.VERSION + 2
            assert connection.exec_driver_sql("SELECT color FROM runs").scalar() == "blue"
        assert applied_steps == [1, 2]

    def test_failed_upgrade_changes_nothing(self, opened):
        def fail(connection: Connection) -> None:
            connection.exec_driver_sql("DROP TABLE commands")
            raise RuntimeError("half way")

        with pytest.raises(RuntimeError), opened.database.begin_write(database.GLOBAL_LOCK) as connection:
            schema.create_or_upgrade(connection, "it", version=schema.VERSION + 1, upgrades={schema.VERSION: fail})
        with opened.database.begin_read() as connection:
            assert schema.find_version(connection, "it") == schema.VERSION
        assert opened.inbox(opened.create_run("run")).read(0) == []

    def test_every_version_has_an_upgrade(self):
        assert sorted(schema.UPGRADES) == list(range(1, schema.VERSION))


class TestRejections:
    def test_database_of_another_program_is_rejected(self, path):
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("CREATE TABLE diary (day TEXT)")
        before = Path(path).read_bytes()
        with pytest.raises(errors.SetupError, match="of another program"):
            store.open(path)
        assert Path(path).read_bytes() == before

    def test_file_that_is_not_a_database_is_rejected(self, path):
        Path(path).write_text("Dear diary, " * 1000)
        with pytest.raises(errors.SetupError, match="is not a database"):
            store.open(path)
        assert Path(path).read_text() == "Dear diary, " * 1000

    def test_missing_folder_is_rejected(self, tmp_path):
        with pytest.raises(errors.SetupError, match="an existing folder"):
            store.open(tmp_path / "nowhere" / "atoll.db")

    @pytest.mark.parametrize("address", ["mysql://host/base", "http://host", "://"])
    def test_other_url_schemes_are_rejected(self, address):
        with pytest.raises(errors.SetupError, match="Use a path"):
            store.open(address)


class TestDatabaseErrors:
    """The store opens again with all commits."""

    @staticmethod
    def limit_pages(opened: store.Store) -> None:
        with opened.database.begin_write() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")

    def test_full_disk(self, path):
        with store.open(path) as opened:
            journal = opened.journal(opened.create_run("run"))
            self.limit_pages(opened)
            pair = Record("begun", 1, 0, {"text": "x" * 3000}), Record("begun", 2, 0, {})
            for _ in range(3):
                journal.write(*pair)
            with pytest.raises(errors.StoreFailed, match=r"is full. Free space"):
                journal.write(*pair * 100)
            assert [record.step for record in journal.read()] == [1, 2] * 3
        with store.open(path) as opened:
            assert kinds(opened, "run") == ["begun"] * 6
            opened.journal("run").write(samples.founded())
            assert kinds(opened, "run")[-1] == "founded"

    def test_full_disk_with_a_long_text(self, path):
        with store.open(path) as opened:
            journal = opened.journal(opened.create_run("run"))
            self.limit_pages(opened)
            noise = "".join(map(chr, range(0x4E00, 0x9000))) * 20
            with pytest.raises(errors.StoreFailed, match="is full"):
                journal.write(samples.founded(content=noise))
            journal.write(samples.founded())
            assert list(journal.read()) == [samples.founded()]

    def test_read_only_file(self, path):
        with store.open(path) as opened:
            opened.journal(opened.create_run("run")).write(samples.founded())
        with store.open(f"sqlite:///file:{path}?mode=ro&uri=true") as opened:
            assert kinds(opened, "run") == ["founded"]
            with pytest.raises(errors.StoreFailed, match="is read-only"):
                opened.journal("run").write(samples.founded())

    def test_locked_file(self, path):
        with store.open(path, busy_seconds=0.1) as opened, closing(sqlite3.connect(path)) as other:
            journal = opened.journal(opened.create_run("run"))
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(errors.StoreFailed, match="is locked by another program"):
                journal.write(samples.founded())
            assert kinds(opened, "run") == []
            other.rollback()
            journal.write(samples.founded())
            assert kinds(opened, "run") == ["founded"]

    def test_damaged_file(self, path):
        with store.open(path) as opened:
            opened.journal(opened.create_run("run")).write(
                *[Record("begun", n, 0, {"n": "x" * 500}) for n in range(200)]
            )
        body = bytearray(Path(path).read_bytes())
        middle = len(body) // 2
        body[middle:] = b"\xff" * (len(body) - middle)
        Path(path).write_bytes(body)
        with store.open(path) as opened, pytest.raises(errors.StoreFailed, match=r"is damaged.*\.recover"):
            kinds(opened, "run")


@pytest.mark.parametrize("url", ["", "  "])
def test_empty_url_is_rejected(url):
    with pytest.raises(errors.SetupError, match=r"URL is empty. Use a path"):
        store.open(url)
