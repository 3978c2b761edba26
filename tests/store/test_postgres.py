"""PostgreSQL: URLs, lost connections, locks, texts."""

import itertools
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

import psycopg
import pytest
from psycopg import conninfo

from atoll import errors, function, store
from atoll.cli.terminal import options
from atoll.journal import Record
from atoll.store.database import schema
from atoll.store.records import json_codec
from atoll.store.versions import audit
from atoll.testing import fakes
from tests import fixtures, postgres
from tests.store import samples, workers

SECRET = "open-sesame"


def begun(*steps: int) -> list[Record]:
    return [Record("begun", step, 0, {}) for step in steps]


@pytest.fixture
def opened_store(postgres_url):
    with store.open(postgres_url) as opened:
        yield opened


class TestAddresses:
    def test_name_opens_the_store_and_has_no_password(self, postgres_url):
        url = postgres_url.replace("postgres@", f"postgres:{SECRET}@")
        with store.open(url) as opened:
            assert SECRET not in opened.database.name
            assert SECRET not in repr(opened.database.engine.url)
            with store.open(opened.database.name) as again:
                assert again.database.identity == opened.database.identity

    @pytest.mark.parametrize(
        ("address", "sentence"),
        [
            (f"postgresql://ann:{SECRET}@127.0.0.1:1/runs", "No server answers at postgresql://ann@127.0.0.1:1/runs"),
            (
                f"postgresql://ann:{SECRET}@/runs?host=/nowhere",
                "No server answers at postgresql://ann@/runs?host=/nowhere",
            ),
            (
                f"postgresql://ann:{SECRET}@nowhere.invalid/runs",
                "host name in postgresql://ann@nowhere.invalid/runs is unknown",
            ),
            (f"postgresql://ann:{SECRET}@host/runs?color=blue", "is not a valid URL. Use postgresql://USER"),
            (f"postgres://ann:{SECRET}%zz@host/runs", "is not a valid URL"),
            (f"postgresql://ann:its@{SECRET}@host/runs", "write @ as %40"),
            (f"postgresql://ann:its/{SECRET}@host/runs", "write @ as %40"),
            (f"postgresql://ann:{SECRET}/it@host/runs", "write @ as %40"),
            (f"postgresql:/ann:{SECRET}@host/runs", "postgresql:... is not a store URL"),
        ],
    )
    def test_connection_errors_have_no_password(self, address, sentence):
        with pytest.raises(errors.SetupError) as caught:
            store.open(address)
        assert sentence in str(caught.value)
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)
        with pytest.raises(errors.SetupError) as caught:
            options.open_existing_store(address)
        assert SECRET not in str(caught.value)

    def test_unknown_database_or_user(self, postgres_server):
        with pytest.raises(errors.SetupError, match=r"Database .* not found. Create it with `createdb`"):
            store.open(postgres_server.url_of("nothing"))
        with pytest.raises(errors.SetupError, match="does not know the user"):
            store.open(postgres_server.url_of("postgres").replace("postgres@", "nobody@"))

    def test_wrong_or_missing_password(self, postgres_server, monkeypatch):
        url = postgres_server.url_of("postgres").replace("postgres@", f"{postgres.GUEST}@")
        with pytest.raises(errors.SetupError, match=r"needs a password. Set PGPASSWORD"):
            store.open(url)
        with pytest.raises(errors.SetupError, match="rejects the user or password") as caught:
            store.open(url.replace("@", f":{SECRET}@"))
        assert SECRET not in str(caught.value)
        monkeypatch.setenv("PGPASSWORD", postgres.PASSWORD)
        with pytest.raises(errors.SetupError, match="Get permission to use and create tables"):
            store.open(url)

    def test_database_of_another_program_is_rejected(self, postgres_server):
        with postgres_server.database(is_empty=True) as url:
            with psycopg.connect(url, autocommit=True) as raw:
                raw.execute("CREATE TABLE diary (day TEXT)")
            with pytest.raises(errors.SetupError, match="of another program"):
                store.open(url)

    def test_newer_schema_is_rejected(self, postgres_url):
        with psycopg.connect(postgres_url, autocommit=True) as raw:
            raw.execute("UPDATE atoll SET schema_version = 99")
        with pytest.raises(errors.SetupError, match=r"newer Atoll wrote .* \(schema 99"):
            store.open(postgres_url)

    def test_read_only_server(self, opened_store, postgres_url):
        opened_store.create_run("run")
        with store.open(f"{postgres_url}&options=-c%20default_transaction_read_only%3Don") as opened:
            assert len(opened.list_runs()) == 1
            with pytest.raises(errors.StoreFailed, match="is read-only"):
                opened.create_run("other")

    def test_missing_extra_is_named(self):
        code = "import sys; sys.modules['psycopg'] = None; from atoll import store; store.open('postgresql://h/d')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "MissingExtra: PostgreSQL stores need an extra. Run: pip install 'atoll[postgres]'" in done.stderr

    def test_schemas_of_a_database_are_independent_stores(self, postgres_server):
        with postgres_server.database(is_empty=True) as url, ExitStack() as stack:
            with psycopg.connect(url, autocommit=True) as raw:
                for name in ("one", "other"):
                    raw.execute(f"CREATE SCHEMA {name}".encode())
            urls = [f"{url}&options=-c%20search_path%3D{name}" for name in ("one", "other")]
            for item in [stack.enter_context(store.open(item)) for item in urls]:
                stack.enter_context(item.lock_run(item.create_run("run")))
                assert len(item.list_runs()) == 1


def test_processes_can_create_a_store_at_once(postgres_server):
    with postgres_server.database(is_empty=True) as url, ExitStack() as stack:
        moment = time.time() + 1.0
        processes = [stack.enter_context(workers.running(workers.open_at_once, url, moment)) for _ in range(3)]
        ids = {pipe.recv() for _, pipe in processes}
        with store.open(url) as opened, opened.database.begin_read() as connection:
            assert {run.id for run in opened.list_runs()} == ids
            assert schema.find_version(connection, "it") == schema.VERSION


class TestTexts:
    ODD = "\0 and \ud800 and 日本 and \U0001f3dd "

    @pytest.mark.parametrize("times", [1, 2_000, 200_000])
    def test_any_content_round_trips(self, opened_store, times):
        content = self.ODD * times
        opened_store.journal(opened_store.create_run("run")).write(samples.founded(content=content))
        assert opened_store.candidates("run").get("0.0").content == content
        assert next(opened_store.journal("run").read()).data["content"] == content

    def test_scores_keep_their_precision(self, opened_store):
        journal = opened_store.journal(opened_store.create_run("run"))
        scores = [0.1 + 0.2, 5e-324, -1.7976931348623157e308, 1 / 3, -0.0]
        for step, score in enumerate(scores, 1):
            journal.write(samples.judged(f"{step}.0", score))
        assert [repr(row.score) for row in opened_store.candidates("run")] == [repr(score) for score in scores]

    def test_unstorable_run_id_is_rejected(self, opened_store):
        with pytest.raises(errors.AtollError, match=r"character that .* cannot store"):
            opened_store.create_run("a\0b")
        assert not opened_store.list_runs()


class PausingMutator(fixtures.Walker):
    """Proposes some candidates, then waits for an event."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._left, self.can_continue = itertools.count(after, -1), threading.Event()

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        if next(self._left) <= 0:
            assert self.can_continue.wait(60)
        return super().propose(context)


class TestLostConnections:
    def test_writers_and_readers_continue(self, opened_store, postgres_server):
        journal, versions = opened_store.journal(opened_store.create_run("run")), opened_store.versions()
        for step in range(3):
            journal.write(*begun(step))
            versions.set("key", str(step), "why", "me")
            postgres_server.cut(opened_store.database.name)
            assert versions.get("key").n == step + 1
            assert len(list(journal.read())) == step + 1
        assert audit.verify(versions.ledger.iter_entries()).seq == 3

    def test_watch_continues(self, opened_store, postgres_server):
        versions = opened_store.versions()
        watch = versions.watch(timeout=60)
        versions.set("key", "1", "why", "me")
        assert next(watch).n == 1
        postgres_server.cut(opened_store.database.name)
        versions.set("key", "2", "why", "me")
        assert next(watch).n == 2

    def test_run_lock_is_restored(self, opened_store, postgres_url, postgres_server):
        journal = opened_store.journal(opened_store.create_run("run"))
        with opened_store.lock_run("run"):
            postgres_server.cut(postgres_url)
            journal.write(*begun(1))
            assert opened_store.get_writer_pid("run") == os.getpid()
            with store.open(postgres_url) as other, pytest.raises(errors.Conflict, match="this process"):
                other.lock_run("run")

    def test_run_lock_taken_by_another_process_is_a_conflict(self, opened_store, postgres_url, postgres_server):
        journal = opened_store.journal(opened_store.create_run("run"))
        with opened_store.lock_run("run"), store.open(postgres_url) as other:
            postgres_server.cut(postgres_url)
            with other.lock_run("run"), pytest.raises(errors.Conflict, match="is being written by"):
                journal.write(*begun(1))
            assert list(other.journal("run").read()) == []

    @pytest.mark.parametrize("is_late", [True, False], ids=["after it was committed", "before it was committed"])
    def test_commit_with_lost_response_counts_once(self, opened_store, monkeypatch, is_late):
        journal, versions = opened_store.journal(opened_store.create_run("run")), opened_store.versions()
        commit, lost = psycopg.Connection.commit, list[int]()

        def lose(connection: psycopg.Connection[object]) -> None:
            if len(lost) < 2:
                lost.append(connection.info.backend_pid)
                if is_late:
                    commit(connection)
                connection.close()
                raise psycopg.OperationalError("the line is dead")
            commit(connection)

        for write in (lambda: journal.write(*begun(1, 2)), lambda: versions.set("key", "value", "why", "me")):
            monkeypatch.setattr(psycopg.Connection, "commit", lose)
            write()
            monkeypatch.undo()
            lost.clear()
        journal.write(*begun(3))
        assert [record.step for record in journal.read()] == [1, 2, 3]
        assert [version.n for version in versions.history("key")] == [1]

    def test_run_survives_a_short_server_outage(self, postgres_server):
        with postgres_server.database() as url, store.open(url) as opened_store:
            name, run = conninfo.conninfo_to_dict(url)["dbname"], opened_store.create_run("run")
            with opened_store.lock_run(run):
                engine = PausingMutator(after=20)
                evolver = fixtures.make_evolver(
                    engine, records=opened_store.journal(run), inbox=opened_store.inbox(run)
                )
                evolver.start()
                fixtures.wait_until(lambda: opened_store.candidates(run).count() > 10)
                postgres_server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
                postgres_server.cut(url)
                engine.can_continue.set()
                time.sleep(0.3)
                postgres_server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
                evolver.join()
                assert opened_store.get_writer_pid(run) == os.getpid()
            applied = [record.step for record in opened_store.journal(run).read_kinds("applied")]
            assert sorted(applied) == list(range(1, 61))

    def test_long_server_outage_is_an_error(self, postgres_server):
        with postgres_server.database() as url, store.open(url, busy_seconds=0.3) as opened:
            journal = opened.journal(opened.create_run("run"))
            journal.write(*begun(1))
            name = conninfo.conninfo_to_dict(url)["dbname"]
            postgres_server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
            postgres_server.cut(url)
            with pytest.raises(errors.StoreFailed, match=r"Lost the connection to .* for 0\.3 s.*atoll resume"):
                journal.write(*begun(2))
            postgres_server.run(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
            journal.write(*begun(2))
            assert [record.step for record in journal.read()] == [1, 2]


def test_deadlocked_writers_both_succeed(opened_store, postgres_url):
    texts = sorted(
        (f"{number}" * 9000 for number in range(2)), key=lambda text: json_codec.Blob.from_bytes(text.encode()).sha256
    )
    low, high = (json_codec.Blob.from_bytes(text.encode()) for text in texts)
    journal = opened_store.journal(opened_store.create_run("run"))
    put = "INSERT INTO blobs VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
    with psycopg.connect(postgres_url) as other:
        other.execute(put, high)
        writer = threading.Thread(target=journal.write, args=[Record("begun", 1, 0, {"a": texts[0], "b": texts[1]})])
        writer.start()
        with psycopg.connect(postgres_url, autocommit=True) as looking:
            waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"
            deadline = time.monotonic() + 60
            while not looking.execute(waiting).fetchall() and time.monotonic() < deadline:
                time.sleep(0.01)
        try:
            other.execute(put, low)
            other.commit()
        except psycopg.errors.DeadlockDetected:
            other.rollback()
        writer.join(60)
    assert [dict(record.data) for record in journal.read()] == [{"a": texts[0], "b": texts[1]}]


def test_writers_of_different_runs_do_not_wait(opened_store, postgres_url):
    journals = [opened_store.journal(opened_store.create_run(run)) for run in ("a", "b")]
    with store.open(postgres_url) as other, other.database.begin_write("run/1"):
        journals[1].write(*begun(1))
    assert len(list(journals[1].read())) == 1


def test_lock_timeout_is_an_error(opened_store, postgres_url):
    journal = opened_store.journal(opened_store.create_run("run"))
    with store.open(postgres_url, busy_seconds=0.1) as hasty:
        late = hasty.journal("run")
        with (
            opened_store.database.begin_write("run/1"),
            pytest.raises(errors.StoreFailed, match="is locked by another program"),
        ):
            late.write(*begun(1))
    journal.write(*begun(1))


def test_threads_share_a_store(opened_store):
    journal, versions = opened_store.journal(opened_store.create_run("run")), opened_store.versions()

    def work(number: int) -> None:
        for _ in range(5):
            journal.write(*begun(number))
            versions.set(f"key/{number}", "value", "why", "me")

    fakes.run_concurrently(work, 4)
    assert len(list(journal.read())) == 20
    assert audit.verify(versions.ledger.iter_entries()).seq == 20
