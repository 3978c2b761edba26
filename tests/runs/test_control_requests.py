"""Commands for a run and their change log."""

import json

import pytest

from atoll import errors, store
from atoll.runs import control_requests


@pytest.fixture
def run_store(tmp_path):
    with store.Store(tmp_path / "atoll.db") as run_store:
        run_store.create_run("run")
        yield run_store


def test_command_is_posted_and_logged(run_store):
    output = control_requests.send_commands(
        run_store, "run", [("raise", {"iterations": 9})], author="ann", reason="it is worth it"
    )
    assert [(item.kind, dict(item.data)) for item in run_store.inbox("run").read(0)] == [("raise", {"iterations": 9})]
    assert output.describe().startswith("Sent to run run: raise the limits to iterations=9, where they are lower.")
    (entry,) = run_store.change_log().list_history("control/run", 0)
    assert (entry.author, entry.reason) == ("ann", "it is worth it")
    assert json.loads(json.loads(entry.value)) == {"kind": "raise", "data": {"iterations": 9}}
    store.audit.verify(run_store.change_log().list_entries("", 0, None, 10))


def test_pause_rejected_for_run_that_is_not_running(run_store):
    with pytest.raises(errors.SetupError, match="is not running, so there is nothing to pause"):
        control_requests.send_commands(run_store, "run", [("pause", {})], author="ann")
    assert not run_store.inbox("run").read(0)
    assert not run_store.change_log().list_history("control/run", 0)


def test_pause_accepted_for_running_run(run_store):
    with run_store.lock_run("run"):
        assert control_requests.send_commands(run_store, "run", [("pause", {})], author="ann").is_alive


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_non_finite_number_is_rejected_and_nothing_is_posted(run_store, number):
    with pytest.raises(errors.SetupError, match="give finite numbers"):
        control_requests.send_commands(
            run_store, "run", [("raise", {"iterations": 9}), ("set", {"tick_delay": number})], author="ann"
        )
    assert not run_store.inbox("run").read(0)
    assert not run_store.change_log().list_history("control/run", 0)


def test_unknown_or_invalid_setting_is_rejected(run_store):
    run_store.create_run("lives", {"system": "survival"})
    with pytest.raises(errors.SetupError, match="danger_threshold"):
        control_requests.send_commands(run_store, "lives", [("set", {"danger_treshold": 0.5})], author="ann")
    with pytest.raises(errors.SetupError):
        control_requests.send_commands(run_store, "lives", [("set", {"danger_threshold": 7})], author="ann")
    control_requests.send_commands(run_store, "lives", [("set", {"danger_threshold": 0.5})], author="ann")
    assert len(run_store.inbox("lives").read(0)) == 1
