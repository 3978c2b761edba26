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
    with either.claim(either.create("run")), pytest.raises(errors.Conflict, match="Run run is being written"):
        either.claim("run")


def test_a_second_store_in_the_process_is_refused(url, opened):
    opened.claim(opened.create("run"))
    with store.open(url) as other, pytest.raises(errors.Conflict, match="this very process"):
        other.claim("run")


def test_what_is_released_may_be_claimed_again(either):
    either.create("run")
    for _ in range(3):
        with either.claim("run"):
            assert either.holder("run") == _writer(either)
        assert either.holder("run") is None
    claim = either.claim("run")
    claim.release()
    claim.release()
    assert either.holder("run") is None


def test_a_release_leaves_no_file(tmp_path, file):
    before = set(os.listdir(tmp_path))
    with file.claim(file.create("run")):
        assert set(os.listdir(tmp_path)) > before
    assert not [name for name in os.listdir(tmp_path) if "claim" in name]


def test_different_runs_are_claimed_apart(either):
    with either.claim(either.create("a")):
        with either.claim(either.create("b")):
            assert either.holder("a") == either.holder("b") == _writer(either)
        assert (either.holder("a"), either.holder("b")) == (_writer(either), None)


def test_closing_the_store_frees_its_claims(url):
    with store.open(url) as opened:
        opened.claim(opened.create("run"))
    with store.open(url) as opened:
        assert opened.holder("run") is None
        with opened.claim("run"):
            assert opened.holder("run") == os.getpid()


def test_another_process_keeps_its_claim_until_it_is_killed(url, opened):
    opened.create("run")
    with workers.running(workers.hold_claim, url, "run") as (process, pipe):
        assert pipe.recv() == "claimed"
        with pytest.raises(errors.Conflict, match=f"by process {process.pid}: let it end"):
            opened.claim("run")
        assert opened.holder("run") == process.pid
        process.kill()
        process.join()
        assert opened.holder("run") is None  # its file is still there
        with opened.claim("run"):
            assert opened.holder("run") == os.getpid()
        assert opened.holder("run") is None


def test_a_claim_does_not_outlive_its_process_in_a_forked_child(url, opened):
    """The children of a killed coordinator may live on for a while: they must not hold up the resume."""
    opened.create("run")
    with workers.running(workers.hold_claim_and_fork, url, "run") as (process, pipe):
        child = pipe.recv()
        process.kill()
        process.join()
        try:
            os.kill(child, 0)
            with opened.claim("run"):
                pass
        finally:
            os.kill(child, 9)


def test_a_claim_is_not_needed_to_write(url, opened):
    opened.create("run")
    with opened.claim("run"), store.open(url) as other:
        other.journal("run").write(Record("begun", 1, 0, {}))
    assert [record.kind for record in opened.journal("run").read()] == ["begun"]
