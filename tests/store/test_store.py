"""Opening, closing, runs and faults."""

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


def test_a_store_opens_by_path_and_by_url(tmp_path):
    for address in (tmp_path / "a.db", str(tmp_path / "b.db"), f"sqlite:///{tmp_path}/c.db", "sqlite://"):
        with store.open(address) as opened:
            assert opened.create_run("run") == "run"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.db", "b.db", "c.db"]


def test_a_store_in_memory_is_shared_by_threads():
    with store.open("sqlite://") as opened:
        journal = opened.journal(opened.create_run("run"))
        threads = [threading.Thread(target=journal.write, args=samples.small_run()[:2]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert kinds(opened, "run") == ["founded", "judged"] * 4


def test_two_stores_in_memory_are_apart():
    with store.open("sqlite://") as one, store.open("sqlite://") as other:
        one.create_run("run")
        assert not other.list_runs()


def test_close_leaves_only_the_file(tmp_path, path):
    opened = store.open(path)
    opened.journal(opened.create_run("run")).write(*samples.small_run())
    opened.lock_run("run")
    assert len(list(tmp_path.iterdir())) > 1
    opened.close()
    assert [each.name for each in tmp_path.iterdir()] == ["atoll.db"]


def test_a_closed_store_says_so(url):
    opened = store.open(url)
    journal = opened.journal(opened.create_run("run"))
    opened.close()
    opened.close()
    with pytest.raises(errors.SetupError, match="closed"):
        journal.write(samples.founded())
    with pytest.raises(errors.SetupError, match="closed"):
        opened.list_runs()


def test_what_was_written_is_there_after_reopening(url):
    with store.open(url) as opened:
        opened.journal(opened.create_run("run", {"seed": 7})).write(*samples.small_run())
        before = list(opened.export("run"))
    with store.open(url) as opened:
        assert list(opened.journal("run").read()) == samples.small_run()
        assert list(opened.export("run")) == before


def test_processes_may_meet_over_a_new_file(url):
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
    def test_an_id_is_readable_and_unique(self, either):
        ids = [either.create() for _ in range(20)]
        assert all(re.fullmatch(r"\d{8}-\d{6}-[a-z0-9]{4}", id) for id in ids)
        assert len(set(ids)) == 20

    def test_the_newest_comes_first_with_its_config(self, either):
        either.create("old", {"seed": 1})
        either.create("new", {"prompt": "long " * 5000})
        assert [(run.id, dict(run.config)) for run in either.runs()] == [
            ("new", {"prompt": "long " * 5000}),
            ("old", {"seed": 1}),
        ]

    def test_a_second_run_of_the_same_id_is_refused(self, either):
        either.create("run")
        with pytest.raises(errors.SetupError, match="already"):
            either.create("run")
        assert len(either.runs()) == 1

    def test_an_empty_id_is_refused(self, either):
        with pytest.raises(errors.SetupError, match="empty"):
            either.create(" ")

    @pytest.mark.parametrize("ask", ["journal", "candidates", "inbox", "claim", "export"])
    def test_an_unknown_run_is_not_found(self, either, ask):
        with pytest.raises(errors.NotFound, match="no run nobody"):
            getattr(either, ask)("nobody")


class TestSchema:
    def test_a_newer_one_is_refused(self, path):
        store.open(path).close()
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("UPDATE atoll SET schema_version = 99")
        with pytest.raises(errors.SetupError, match=r"newer Atoll \(schema 99.*give another path"):
            store.open(path)

    def test_an_older_one_is_upgraded_step_by_step(self, opened):
        took = []

        def first(connection: Connection) -> None:
            connection.exec_driver_sql("ALTER TABLE runs ADD COLUMN colour TEXT")
            took.append(1)

        def second(connection: Connection) -> None:
            connection.exec_driver_sql("UPDATE runs SET colour = 'blue'")
            took.append(2)

        opened.create("run")
        steps = {schema.VERSION: first, schema.VERSION + 1: second}
        with opened.database.begin_write(database.GLOBAL_LOCK) as connection:
            schema.create_or_upgrade(connection, "it", version=schema.VERSION + 2, upgrades=steps)
        with opened.database.begin_read() as connection:
            assert schema.find_version(connection, "it") == schema.VERSION + 2
            assert connection.exec_driver_sql("SELECT colour FROM runs").scalar() == "blue"
        assert took == [1, 2]

    def test_an_upgrade_that_fails_changes_nothing(self, opened):
        def fail(connection: Connection) -> None:
            connection.exec_driver_sql("DROP TABLE commands")
            raise RuntimeError("half way")

        with pytest.raises(RuntimeError), opened.database.begin_write(database.GLOBAL_LOCK) as connection:
            schema.create_or_upgrade(connection, "it", version=schema.VERSION + 1, upgrades={schema.VERSION: fail})
        with opened.database.begin_read() as connection:
            assert schema.find_version(connection, "it") == schema.VERSION
        assert opened.inbox(opened.create("run")).read(0) == []

    def test_every_step_up_to_now_has_an_upgrade(self):
        assert sorted(schema.UPGRADES) == list(range(1, schema.VERSION))


class TestRefusals:
    def test_the_database_of_somebody_else(self, path):
        with closing(sqlite3.connect(path)) as raw, raw:
            raw.execute("CREATE TABLE diary (day TEXT)")
        before = Path(path).read_bytes()
        with pytest.raises(errors.SetupError, match="no Atoll store"):
            store.open(path)
        assert Path(path).read_bytes() == before

    def test_a_file_that_is_no_database(self, path):
        Path(path).write_text("Dear diary, " * 1000)
        with pytest.raises(errors.SetupError, match="is no database"):
            store.open(path)
        assert Path(path).read_text() == "Dear diary, " * 1000

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(errors.SetupError, match="a folder that exists"):
            store.open(tmp_path / "nowhere" / "atoll.db")

    @pytest.mark.parametrize("address", ["mysql://host/base", "http://host", "://"])
    def test_an_address_of_another_kind(self, address):
        with pytest.raises(errors.SetupError, match="give a path"):
            store.open(address)


class TestFaults:
    """After each of them the store opens again with all that was committed."""

    @staticmethod
    def limit_pages(opened: store.Store) -> None:
        with opened.database.begin_write() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 20}")

    def test_a_full_disk(self, path):
        with store.open(path) as opened:
            journal = opened.journal(opened.create_run("run"))
            self.limit_pages(opened)
            pair = Record("begun", 1, 0, {"text": "x" * 3000}), Record("begun", 2, 0, {})
            for _ in range(3):
                journal.write(*pair)
            with pytest.raises(errors.StoreFailed, match="is full: make room"):
                journal.write(*pair * 100)
            assert [record.step for record in journal.read()] == [1, 2] * 3
        with store.open(path) as opened:
            assert kinds(opened, "run") == ["begun"] * 6
            opened.journal("run").write(samples.founded())
            assert kinds(opened, "run")[-1] == "founded"

    def test_a_full_disk_under_a_long_text(self, path):
        with store.open(path) as opened:
            journal = opened.journal(opened.create_run("run"))
            self.limit_pages(opened)
            noise = "".join(map(chr, range(0x4E00, 0x9000))) * 20
            with pytest.raises(errors.StoreFailed, match="is full"):
                journal.write(samples.founded(content=noise))
            journal.write(samples.founded())
            assert list(journal.read()) == [samples.founded()]

    def test_a_file_that_is_read_only(self, path):
        with store.open(path) as opened:
            opened.journal(opened.create_run("run")).write(samples.founded())
        with store.open(f"sqlite:///file:{path}?mode=ro&uri=true") as opened:
            assert kinds(opened, "run") == ["founded"]
            with pytest.raises(errors.StoreFailed, match="is read-only"):
                opened.journal("run").write(samples.founded())

    def test_a_file_that_stays_locked(self, path):
        with store.open(path, busy_seconds=0.1) as opened, closing(sqlite3.connect(path)) as other:
            journal = opened.journal(opened.create_run("run"))
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(errors.StoreFailed, match="stayed locked"):
                journal.write(samples.founded())
            assert kinds(opened, "run") == []
            other.rollback()
            journal.write(samples.founded())
            assert kinds(opened, "run") == ["founded"]

    def test_a_damaged_file(self, path):
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
def test_a_store_without_a_name_is_refused(url):
    with pytest.raises(errors.SetupError, match="has no name: give a path"):
        store.open(url)
