"""Coordinators of one run, in one process: they share islands, budget and end."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from atoll import config, errors, runs, store
from atoll.runs import control_requests
from tests import fixtures
from tests.chaos.test_coordinators import TASK, TOML

pytestmark = pytest.mark.timeout(600)
WORKERS = 2


@pytest.fixture
def task(tmp_path):
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "atoll.toml").write_text(TOML)
    (folder / "task.py").write_text(TASK.replace("0.2", "0.02"))
    return folder


def lead(url, task, **limits):
    """Has two coordinators do a run and returns its store, its id, why it ended for each, and what they said."""
    plan, lines = config.load(task, [{"run": {"workers": WORKERS, **limits}}]), list[str]()
    with store.Store(url) as run_store, store.Store(url) as other, ThreadPoolExecutor() as threads:
        first = runs.Coordinator(run_store, plan, lease_seconds=4.0, say=lines.append)
        begun = threads.submit(first.run)
        second = runs.join(other, first.run_id, lease_seconds=4.0, say=lines.append)
        reasons = [second.run(), begun.result(300)]
    return first.run_id, reasons, lines


def test_two_coordinators_share_islands_and_evaluations(tmp_path, task):
    url = str(tmp_path / "atoll.db")
    run, reasons, lines = lead(url, task, budget="150evals")
    assert reasons == ["budget of 150 evaluations used"] * 2
    assert len({line.split()[0] for line in lines}) == 2
    with store.Store(url) as run_store:
        summary = runs.summarize(run_store, run)
        records = list(run_store.journal(run).read())
        assert run_store.list_coordinators(run) == []
        with pytest.raises(errors.SetupError, match=f"is shared by coordinators. Continue it with 'atoll join {run}'"):
            runs.resume(run_store, run)
    paid = 1 + sum(record.data["paid"] for record in records if record.kind == "judged")
    most = max(record.data["allowance"] for record in records if record.kind == "begun")
    assert 150 <= paid <= 150 + 2 * WORKERS * most  # never more than what was in flight
    assert (summary.status, summary.totals.evaluations) == ("done", paid)
    assert {record.step for record in records if record.kind == "begun"} == {
        record.step for record in records if record.kind == "applied"
    }


def test_target_score_ends_run_for_all_coordinators(tmp_path, task):
    url = str(tmp_path / "atoll.db")
    run, reasons, _ = lead(url, task, target=-0.5, iterations=5_000)
    assert reasons == ["score -0.5 reached"] * 2
    with store.Store(url) as run_store:
        assert runs.summarize(run_store, run).status == "done"


def test_stop_command_ends_run_for_all_coordinators(tmp_path, task):
    url = str(tmp_path / "atoll.db")
    plan = config.load(task, [{"run": {"workers": WORKERS, "iterations": 100_000}}])
    with (
        store.Store(url) as run_store,
        store.Store(url) as other,
        store.Store(url) as mine,
        ThreadPoolExecutor() as threads,
    ):
        first = runs.Coordinator(run_store, plan, lease_seconds=4.0)
        second = runs.join(other, first.run_id, lease_seconds=4.0)
        ends = [threads.submit(item.run) for item in (first, second)]
        fixtures.wait_until(
            lambda: len(mine.list_coordinators(first.run_id)) == 2 and mine.candidates(first.run_id).count() > 20
        )
        assert runs.summarize(mine, first.run_id).status == "running"
        output = control_requests.send_commands(mine, first.run_id, [("stop", {})], author="a test")
        assert output.is_alive
        assert [item.result(300) for item in ends] == ["stopped"] * 2
        assert runs.summarize(mine, first.run_id).status == "stopped"
        with pytest.raises(errors.SetupError, match=f"nothing to stop. Continue it with 'atoll join {first.run_id}'"):
            control_requests.send_commands(mine, first.run_id, [("stop", {})], author="a test")


def test_pause_holds_for_joining_coordinators(tmp_path, task):
    url = str(tmp_path / "atoll.db")
    plan = config.load(task, [{"run": {"workers": WORKERS, "budget": "60evals"}}])
    with (
        store.Store(url) as run_store,
        store.Store(url) as other,
        store.Store(url) as mine,
        ThreadPoolExecutor() as threads,
    ):
        first = runs.Coordinator(run_store, plan, lease_seconds=4.0)
        control_requests.send_commands(mine, first.run_id, [("pause", {})], author="a test")
        ends = [threads.submit(first.run)]
        fixtures.wait_until(lambda: runs.summarize(mine, first.run_id).status == "paused")
        ends.append(threads.submit(runs.join(other, first.run_id, lease_seconds=4.0).run))
        fixtures.wait_until(
            lambda: len(list(mine.journal(first.run_id).read_kinds("controlled"))) > 1
        )  # its islands changed hands
        assert not list(mine.journal(first.run_id).read_kinds("applied"))
        control_requests.send_commands(mine, first.run_id, [("resume", {})], author="a test")
        assert [item.result(300) for item in ends] == ["budget of 60 evaluations used"] * 2


def test_join_rejects_unshared_run(tmp_path, task):
    with store.Store(tmp_path / "atoll.db") as run_store:
        plan = config.load(task, [{"run": {"iterations": 0}}])
        with runs.Session(run_store, plan) as session:
            session.run()
        with pytest.raises(errors.SetupError, match="Start a run that others can join with 'atoll run TASK --shared'"):
            runs.join(run_store, session.run_id)


def test_shared_run_rejects_deterministic(tmp_path, task):
    with store.Store(tmp_path / "atoll.db") as run_store:
        plan = config.load(task, [{"run": {"deterministic": True}}])
        with pytest.raises(errors.SetupError, match=r"depends on timing\. Leave --deterministic out"):
            runs.Coordinator(run_store, plan)
