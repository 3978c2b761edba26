"""Parameter stores with several processes and with killed processes."""

import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest

from atoll import governed
from tests.governed.parameters import workers


@pytest.fixture(params=["parameters.db", "folder", "postgres"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Path or URL of a new store of each kind that processes can share."""
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / request.param)


def count_together(path: str, num_processes: int, times: int) -> None:
    with workers.opened(path) as store:
        store.set("number", 0, "start", author="test")
    with ExitStack() as stack:
        crowd = [stack.enter_context(workers.running(workers.count_up, path, times)) for _ in range(num_processes)]
        assert [pipe.recv() for _, pipe in crowd] == ["done"] * num_processes
    total = num_processes * times
    with workers.opened(path) as store:
        history = store.history("number")
        assert [change.version for change in history] == list(range(1, total + 2))
        assert [change.value for change in history] == list(range(total + 1))
        assert store.verify().seq == total + 1


def test_four_processes_count_to_80_without_gaps(path):
    count_together(path, 4, 20)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_eight_processes_count_to_8000_without_gaps(path):
    count_together(path, 8, 1000)


def kill_often(path: str, times: int) -> None:
    """Kills a writer repeatedly at random times. No reported change may be lost or partial."""
    rng = Random(0)
    for _ in range(times):
        with workers.running(workers.write, path) as (process, pipe):
            pipe.recv()
            time.sleep(rng.random() * 0.02)
            process.kill()
            process.join()
            reported = max(workers.reports(pipe), default=0)
        with workers.opened(path) as store:
            values = {key: store.get(key) for key in ("a", "b", "c")}
            assert len(set(values.values())) == 1, "a transaction is there whole or not at all"
            value, version = values["a"]
            assert value >= reported
            assert [change.version for change in store.history("a")] == list(range(1, version + 1))
            assert store.verify().seq >= 4 * value - 1
            store.set("d", value, "still alive", author="test")
            assert store.verify().seq >= 4 * value


def test_killed_writer_leaves_no_partial_version(path):
    kill_often(path, 4)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_200_killed_writers_leave_no_partial_version(path):
    kill_often(path, 200)


def test_watch_sees_changes_of_another_process_soon(path):
    waits = []
    with workers.opened(path) as store, workers.running(workers.set_later, path, 10) as (_, pipe):
        assert pipe.recv() == "ready"
        for change in store.watch("key", after=0, timeout=10.0):
            assert isinstance(change, governed.Change)
            waits.append(time.time() - change.value)
            if change.version == 10:
                break
    assert sorted(waits)[5] < 0.2  # median; scripts/bench governed prints it with the 99th percentile
