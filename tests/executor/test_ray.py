"""Evaluations on a Ray cluster with three nodes on this machine, started once for all tests."""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from atoll import cluster, config, control, errors, executor, function, runs, sandbox, store
from atoll.evaluation import Evaluation
from atoll.executor import ray
from atoll.testing import ExecutorSuite, sandboxes
from tests.executor import ray_clusters

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("ray")]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "funsearch_capset"
RAY_CONFIG = ray.RayConfig(wait_seconds=120.0)


@pytest.fixture(scope="module", autouse=True)
def _ray():
    """Imports Ray when a test starts; every process collects this file."""
    pytest.importorskip("ray", reason="needs the extra ray: scripts/setup dev")


@pytest.fixture(scope="module")
def nodes():
    with ray_clusters.open_cluster() as box:
        yield box


def make_config(num_slots=4, stats=None, ray_config=RAY_CONFIG, **rest):
    return executor.ExecutorConfig(
        sandbox.Limits(seconds=20.0),
        num_slots,
        ray_config=ray_config,
        ray_stats=stats or ray.RayStats(),
        is_unsafe=True,
        **rest,
    )


@pytest.mark.slow  # each test has its own actors; the other tests cover most of it
@pytest.mark.usefixtures("nodes")
class TestRaySlotPool(ExecutorSuite):
    def make(self, make_job, limits, num_workers):
        actor_config = ray.ActorConfig(limits, None, True, False, sandbox.DEFAULT_PERMISSIONS, ray.TaskFiles())
        return executor.LocalExecutor(
            ray.RaySlotPool(make_job, actor_config, RAY_CONFIG, num_workers, ray.RayStats()), num_workers
        )


class CountingProposer:
    """Proposes the number of the iteration as text."""

    def propose(self, context):
        return [context.parents[0].clone(function.Text(str(context.iteration)))]


def twenty_milliseconds():
    """Returns a job that takes 20 ms and returns its input."""

    def run(text):
        time.sleep(0.02)
        return float(text)

    return run


def evolve(nodes, num_evaluations, opened_store, seed):
    """Evaluates candidates while a node is killed; returns the records and the statistics."""
    stats, run = ray.RayStats(), opened_store.create_run()
    target = random.Random(seed).uniform(0.1, 0.7) * num_evaluations

    def kill():
        while stats.evaluations < target:
            time.sleep(0.01)
        victim = random.Random(seed).choice(sorted(nodes.worker_nodes, key=lambda item: item.node_id))
        ray_clusters.kill(nodes, victim)

    with make_config(6, stats).open(twenty_milliseconds) as box:
        evaluator = sandbox.SandboxEvaluator(box, lambda value: Evaluation(float(str(value))))
        props = function.DefaultFunctionProps(function.Text("0"), candidate_evaluator=evaluator)
        islands = cluster.IslandConfig(2, 1, function.DefaultFunction(props), CountingProposer())
        budget = control.Budget(evaluations=num_evaluations)
        plan = cluster.EvolverConfig(islands, num_parallel=6, budget=budget, journal=opened_store.journal(run))
        killer = threading.Thread(target=kill)
        killer.start()
        cluster.Evolver(plan).run()
        killer.join()
    return list(opened_store.journal(run).read()), stats


def check_each_once(records, stats, num_evaluations):
    evaluated = [record.data for record in records if record.kind == "judged"]
    issued = {record.step for record in records if record.kind == "begun"}
    assert len(evaluated) == num_evaluations - 1  # plus the initial candidate
    assert len({data["id"] for data in evaluated}) == len({data["content"] for data in evaluated}) == len(evaluated)
    assert {record.step for record in records if record.kind == "applied"} == issued
    assert all(data["evaluation"]["score"] == float(data["content"]) for data in evaluated)
    assert stats.evaluations == num_evaluations
    assert stats.given_up == 0


def test_dead_node_loses_no_candidate(nodes):
    with store.Store("sqlite://") as opened_store:
        records, stats = evolve(nodes, 200, opened_store, seed=1)
    ray_clusters.add(nodes, num_cpus=2)
    check_each_once(records, stats, 200)
    assert stats.nodes_lost <= 1
    assert stats.seats_lost >= stats.again >= 0


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(int(os.environ.get("ATOLL_KILLS", "3"))))
def test_2000_evaluations_survive_a_dead_node(nodes, seed):
    with store.Store("sqlite://") as opened_store:
        records, stats = evolve(nodes, 2000, opened_store, seed)
    ray_clusters.add(nodes, num_cpus=2)
    print(f"kill {seed}: {stats}")
    check_each_once(records, stats, 2000)
    assert stats.nodes_lost <= 1


def test_candidate_that_kills_actors_is_given_up(nodes):
    stats, poison = ray.RayStats(), "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os._exit(1)"
    with make_config(2, stats, is_trusted=True).open(sandboxes.get_job_maker()) as box:
        programs = ("answer = 1", poison, "answer = 2", "answer = 3")
        with ThreadPoolExecutor(4) as threads:
            results = list(threads.map(box.run, programs))
    assert [result.value for result in results] == [1, None, 2, 3]
    assert results[1].failure == "it ended its worker on the cluster 3 times"
    assert (stats.evaluations, stats.given_up) == (4, 1)
    assert stats.again >= 2


def test_candidate_does_not_see_the_environment_of_ray(nodes):
    program = "import os; answer = [*os.environ.keys(), *os.environ.values()]"
    with make_config(1).open(sandboxes.get_job_maker()) as box:
        environment = box.run(program).value
    assert isinstance(environment, list)
    assert not {"ATOLL_TEST_API_KEY", "a secret"}.intersection(environment)
    assert not [name for name in environment if str(name).startswith("RAY_")]


def test_level_that_a_node_lacks_fails_in_open(nodes):
    with pytest.raises(errors.SetupError, match="exclude each other"):
        make_config(1, require="L2", is_trusted=True).open(sandboxes.get_job_maker())


def test_broken_job_is_a_setup_error(nodes):
    def broken():
        raise FileNotFoundError("no data here")

    with pytest.raises(errors.SetupError, match="no data here"):
        make_config(1).open(broken)


def test_cluster_without_resources_is_a_setup_error(nodes):
    ray_config = ray.RayConfig(resources={"unicorn": 1.0}, wait_seconds=0.5)
    with pytest.raises(errors.SetupError, match=r"No node .* had 1 CPUs, 1 unicorn free for .*Start a node"):
        make_config(1, ray_config=ray_config).open(sandboxes.get_job_maker())


def test_deterministic_run_is_the_same_on_the_cluster(nodes, tmp_path):
    def export(*changes):
        run = {"iterations": 8, "seed": 5, "deterministic": True}
        plan = config.load(EXAMPLE, [{"run": run}, *changes])
        with runs.Session(opened_store, plan) as session:
            session.run()
        return list(opened_store.export(session.run_id)), session

    with store.Store(tmp_path / "atoll.db") as opened_store:
        local_records, _ = export()
        ray_records, session = export({"executor": {"kind": "ray", "address": nodes.address}})
        last = opened_store.journal(session.run_id).read_last()
        assert runs.summarize(opened_store, session.run_id).status == "done"
    assert local_records == ray_records
    assert last is not None
    assert last.data["executor"]["evaluations"] > 8
    assert last.data["executor"]["again"] == 0


def test_address_without_a_cluster_fails_fast():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(errors.SetupError, match=f"Ray cluster not found at {address} .*'ray start --head"):
        make_config(1, ray_config=ray.RayConfig(address=address)).open(sandboxes.get_job_maker())


@pytest.mark.slow
def test_local_cluster_ends_with_the_run(tmp_path):
    script = (
        "from atoll import executor, sandbox\n"
        "from atoll.testing import sandboxes\n"
        "ray_config = executor.RayConfig()\n"
        "with executor.ExecutorConfig(ray_config=ray_config, is_unsafe=True).open(sandboxes.get_job_maker()) as box:\n"
        "    print(box.run('answer = 7').value)\n"
        "import ray\n"
        "print(ray.is_initialized())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert ended.stdout.split() == ["7", "False"], ended.stderr


def test_missing_ray_is_a_setup_error(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(errors.SetupError, match=r"--executor ray needs Ray. Run: pip install 'atoll\[ray\]'"):
        make_config(1).open(sandboxes.get_job_maker())
