"""What is asked of a run, and the log of who asked."""

import json

import pytest

from atoll import errors, store
from atoll.runs import control_requests


@pytest.fixture
def kept(tmp_path):
    with store.Store(tmp_path / "atoll.db") as kept:
        kept.create_run("run")
        yield kept


def test_an_order_is_posted_and_written_down(kept):
    told = control_requests.send_commands(
        kept, "run", [("raise", {"iterations": 9})], author="ann", reason="it is worth it"
    )
    assert [(each.kind, dict(each.data)) for each in kept.inbox("run").read(0)] == [("raise", {"iterations": 9})]
    assert told.describe().startswith("Sent to run run: raise the limits to iterations=9, where they are lower.")
    (entry,) = kept.change_log().list_history("control/run", 0)
    assert (entry.author, entry.reason) == ("ann", "it is worth it")
    assert json.loads(json.loads(entry.value)) == {"kind": "raise", "data": {"iterations": 9}}
    store.audit.verify(kept.change_log().list_entries("", 0, None, 10))


def test_a_run_that_nobody_writes_cannot_be_paused(kept):
    with pytest.raises(errors.SetupError, match="is not running, so there is nothing to pause"):
        control_requests.send_commands(kept, "run", [("pause", {})], author="ann")
    assert not kept.inbox("run").read(0)
    assert not kept.change_log().list_history("control/run", 0)


def test_one_under_way_can(kept):
    with kept.lock_run("run"):
        assert control_requests.send_commands(kept, "run", [("pause", {})], author="ann").is_alive


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_refused_and_nothing_is_told(kept, number):
    with pytest.raises(errors.SetupError, match="give finite numbers"):
        control_requests.send_commands(
            kept, "run", [("raise", {"iterations": 9}), ("set", {"tick_delay": number})], author="ann"
        )
    assert not kept.inbox("run").read(0)
    assert not kept.change_log().list_history("control/run", 0)


def test_a_setting_that_the_system_has_not_is_refused(kept):
    kept.create_run("lives", {"system": "survival"})
    with pytest.raises(errors.SetupError, match="danger_threshold"):
        control_requests.send_commands(kept, "lives", [("set", {"danger_treshold": 0.5})], author="ann")
    with pytest.raises(errors.SetupError):
        control_requests.send_commands(kept, "lives", [("set", {"danger_threshold": 7})], author="ann")
    control_requests.send_commands(kept, "lives", [("set", {"danger_threshold": 0.5})], author="ann")
    assert len(kept.inbox("lives").read(0)) == 1
