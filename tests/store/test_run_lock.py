"""Run locks: one writer per run."""

import os
import time

import pytest

from atoll import errors, store
from atoll.journal import Record
from tests.store import workers


def get_expected_pid(opened: store.Store) -> int | None:
    """Returns the process id of our own lock; a store in memory does not report it."""
    return os.getpid() if opened.database.dialect.is_shared else None


def test_run_cannot_be_locked_twice(any_store):
    with (
        any_store.lock_run(any_store.create_run("run")),
        pytest.raises(errors.Conflict, match=r"(writes run run|Run run is being written)"),
    ):
        any_store.lock_run("run")


def test_run_cannot_be_locked_by_a_second_store(url, opened):
    opened.lock_run(opened.create_run("run"))
    with store.open(url) as other, pytest.raises(errors.Conflict, match=r"([Tt]his process)"):
        other.lock_run("run")


def test_released_run_can_be_locked_again(any_store):
    any_store.create_run("run")
    for _ in range(3):
        with any_store.lock_run("run"):
            assert any_store.get_writer_pid("run") == get_expected_pid(any_store)
        assert any_store.get_writer_pid("run") is None
    run_lock = any_store.lock_run("run")
    run_lock.release()
    run_lock.release()
    assert any_store.get_writer_pid("run") is None


def test_release_removes_the_lock_file(tmp_path, file):
    before = set(os.listdir(tmp_path))
    with file.lock_run(file.create_run("run")):
        assert set(os.listdir(tmp_path)) > before
    assert not [name for name in os.listdir(tmp_path) if "claim" in name]


def test_locks_of_different_runs_are_independent(any_store):
    with any_store.lock_run(any_store.create_run("a")):
        with any_store.lock_run(any_store.create_run("b")):
            assert any_store.get_writer_pid("a") == any_store.get_writer_pid("b") == get_expected_pid(any_store)
        assert (any_store.get_writer_pid("a"), any_store.get_writer_pid("b")) == (get_expected_pid(any_store), None)


def test_closing_the_store_releases_its_locks(url):
    with store.open(url) as opened:
        opened.lock_run(opened.create_run("run"))
    with store.open(url) as opened:
        assert opened.get_writer_pid("run") is None
        with opened.lock_run("run"):
            assert opened.get_writer_pid("run") == os.getpid()


def test_lock_of_another_process_ends_when_it_is_killed(url, opened):
    opened.create_run("run")
    with workers.running(workers.hold_lock, url, "run") as (process, pipe):
        assert pipe.recv() == "locked"
        with pytest.raises(errors.Conflict, match=f"by process {process.pid}. Wait for its end, or stop it"):
            opened.lock_run("run")
        assert opened.get_writer_pid("run") == process.pid
        process.kill()
        process.join()
        deadline = time.monotonic() + 30.0
        while opened.get_writer_pid("run") is not None and time.monotonic() < deadline:
            time.sleep(0.01)  # PostgreSQL takes a moment to see that the connection is gone
        assert opened.get_writer_pid("run") is None  # although its file exists
        with opened.lock_run("run"):
            assert opened.get_writer_pid("run") == os.getpid()
        assert opened.get_writer_pid("run") is None


def test_lock_is_not_inherited_by_a_forked_child(url, opened):
    """Children of a killed coordinator may survive for a while; the run must be resumable."""
    opened.create_run("run")
    with workers.running(workers.hold_lock_and_fork, url, "run") as (process, pipe):
        child = pipe.recv()
        process.kill()
        process.join()
        try:
            os.kill(child, 0)
            with opened.lock_run("run"):
                pass
        finally:
            os.kill(child, 9)


def test_journal_can_be_written_without_a_lock(url, opened):
    opened.create_run("run")
    with opened.lock_run("run"), store.open(url) as other:
        other.journal("run").write(Record("begun", 1, 0, {}))
    assert [record.kind for record in opened.journal("run").read()] == ["begun"]
