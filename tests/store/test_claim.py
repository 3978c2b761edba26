"""Claims: one writer per run, however it ends."""

import os

import pytest

from atoll import errors, store
from atoll.journal import Record
from tests.store import workers


def _writer(opened: store.Store) -> int | None:
    """Returns who holds what this process claimed; a store in memory is one process's and names nobody."""
    return os.getpid() if opened.database.dialect.is_shared else None


def test_a_second_claimant_in_the_process_is_refused(either):
    with either.lock_run(either.create("run")), pytest.raises(errors.Conflict, match="Run run is being written"):
        either.lock_run("run")


def test_a_second_store_in_the_process_is_refused(url, opened):
    opened.lock_run(opened.create("run"))
    with store.open(url) as other, pytest.raises(errors.Conflict, match="this very process"):
        other.lock_run("run")


def test_what_is_released_may_be_claimed_again(either):
    either.create("run")
    for _ in range(3):
        with either.lock_run("run"):
            assert either.get_writer_pid("run") == _writer(either)
        assert either.get_writer_pid("run") is None
    claim = either.lock_run("run")
    claim.release()
    claim.release()
    assert either.get_writer_pid("run") is None


def test_a_release_leaves_no_file(tmp_path, file):
    before = set(os.listdir(tmp_path))
    with file.lock_run(file.create("run")):
        assert set(os.listdir(tmp_path)) > before
    assert not [name for name in os.listdir(tmp_path) if "claim" in name]


def test_different_runs_are_claimed_apart(either):
    with either.lock_run(either.create("a")):
        with either.lock_run(either.create("b")):
            assert either.get_writer_pid("a") == either.get_writer_pid("b") == _writer(either)
        assert (either.get_writer_pid("a"), either.get_writer_pid("b")) == (_writer(either), None)


def test_closing_the_store_frees_its_claims(url):
    with store.open(url) as opened:
        opened.lock_run(opened.create_run("run"))
    with store.open(url) as opened:
        assert opened.get_writer_pid("run") is None
        with opened.lock_run("run"):
            assert opened.get_writer_pid("run") == os.getpid()


def test_another_process_keeps_its_claim_until_it_is_killed(url, opened):
    opened.create("run")
    with workers.running(workers.hold_claim, url, "run") as (process, pipe):
        assert pipe.recv() == "claimed"
        with pytest.raises(errors.Conflict, match=f"by process {process.pid}: let it end"):
            opened.lock_run("run")
        assert opened.get_writer_pid("run") == process.pid
        process.kill()
        process.join()
        assert opened.get_writer_pid("run") is None  # its file is still there
        with opened.lock_run("run"):
            assert opened.get_writer_pid("run") == os.getpid()
        assert opened.get_writer_pid("run") is None


def test_a_claim_does_not_outlive_its_process_in_a_forked_child(url, opened):
    """The children of a killed coordinator may live on for a while: they must not hold up the resume."""
    opened.create("run")
    with workers.running(workers.hold_claim_and_fork, url, "run") as (process, pipe):
        child = pipe.recv()
        process.kill()
        process.join()
        try:
            os.kill(child, 0)
            with opened.lock_run("run"):
                pass
        finally:
            os.kill(child, 9)


def test_a_claim_is_not_needed_to_write(url, opened):
    opened.create("run")
    with opened.lock_run("run"), store.open(url) as other:
        other.journal("run").write(Record("begun", 1, 0, {}))
    assert [record.kind for record in opened.journal("run").read()] == ["begun"]
