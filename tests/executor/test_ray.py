"""Evaluations on a Ray cluster: three nodes on this machine, started once for all tests here."""

import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from atoll import cluster, config, control, errors, executor, function, runs, sandbox, store
from atoll.evaluation import Evaluation
from atoll.executor import ray as fleets
from atoll.testing import ExecutorSuite, sandboxes
from tests.executor import clusters

pytest.importorskip("ray", reason="needs the extra ray: scripts/setup dev")

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("ray")]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "funsearch_capset"
TERMS = fleets.RayConfig(wait_seconds=120.0)


@pytest.fixture(scope="module")
def nodes():
    with clusters.cluster() as made:
        yield made


def place(num_slots=4, tally=None, terms=TERMS, **rest):
    return executor.ExecutorConfig(
        sandbox.Limits(seconds=20.0),
        num_slots,
        ray_config=terms,
        ray_stats=tally or fleets.RayStats(),
        is_unsafe=True,
        **rest,
    )


@pytest.mark.slow  # eight tests with seats of their own; the others here show the same in passing
@pytest.mark.usefixtures("nodes")
class TestFleet(ExecutorSuite):
    def make(self, make_job, limits, num_workers):
        order = fleets.ActorConfig(limits, None, True, False, sandbox.DEFAULT_PERMISSIONS, fleets.TaskFiles())
        return executor.LocalExecutor(
            fleets.RaySlotPool(make_job, order, TERMS, num_workers, fleets.RayStats()), num_workers
        )


class Counting:
    """Proposes a text that nobody has proposed: the number of its step."""

    def propose(self, context):
        return [context.parents[0].clone(function.Text(str(context.step)))]


def twenty_milliseconds():
    """Makes a job that takes 20 ms and returns what it was given."""

    def run(text):
        time.sleep(0.02)
        return float(text)

    return run


def evolve(nodes, num_evaluations, kept, seed):
    """Judges so many candidates and kills a node without grace meanwhile; returns the journal and what was counted."""
    tally, run = fleets.RayStats(), kept.create()
    wanted = random.Random(seed).uniform(0.1, 0.7) * num_evaluations

    def kill():
        while tally.evaluations < wanted:
            time.sleep(0.01)
        victim = random.Random(seed).choice(sorted(nodes.worker_nodes, key=lambda each: each.node_id))
        clusters.kill(nodes, victim)

    with place(6, tally).open(twenty_milliseconds) as box:
        judge = sandbox.SandboxEvaluator(box, lambda value: Evaluation(float(str(value))))
        props = function.DefaultFunctionProps(function.Text("0"), candidate_evaluator=judge)
        islands = cluster.IslandConfig(2, 1, function.DefaultFunction(props), Counting())
        budget = control.Budget(evaluations=num_evaluations)
        plan = cluster.EvolverConfig(islands, num_parallel=6, budget=budget, journal=kept.journal(run))
        killer = threading.Thread(target=kill)
        killer.start()
        cluster.Evolver(plan).run()
        killer.join()
    return list(kept.journal(run).read()), tally


def check_each_once(records, tally, num_evaluations):
    judged = [record.data for record in records if record.kind == "judged"]
    begun = {record.step for record in records if record.kind == "begun"}
    assert len(judged) == num_evaluations - 1  # the founder is the first
    assert len({data["id"] for data in judged}) == len({data["content"] for data in judged}) == len(judged)
    assert {record.step for record in records if record.kind == "applied"} == begun  # none is lost
    assert all(data["evaluation"]["score"] == float(data["content"]) for data in judged)
    assert tally.evaluations == num_evaluations
    assert tally.given_up == 0


def test_a_node_that_dies_costs_time_and_no_candidate(nodes):
    with store.Store("sqlite://") as kept:
        records, tally = evolve(nodes, 200, kept, seed=1)
    clusters.add(nodes, num_cpus=2)
    check_each_once(records, tally, 200)
    assert tally.nodes_lost <= 1
    assert tally.seats_lost >= tally.again >= 0


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(int(os.environ.get("ATOLL_KILLS", "3"))))
def test_2000_evaluations_survive_the_death_of_a_node_at_any_moment(nodes, seed):
    with store.Store("sqlite://") as kept:
        records, tally = evolve(nodes, 2000, kept, seed)
    clusters.add(nodes, num_cpus=2)
    print(f"kill {seed}: {tally}")
    check_each_once(records, tally, 2000)
    assert tally.nodes_lost <= 1


def test_a_candidate_that_kills_its_worker_is_given_up_after_the_cap(nodes):
    tally, poison = fleets.RayStats(), "import os, signal; os.kill(os.getppid(), signal.SIGKILL); os._exit(1)"
    with place(2, tally, is_trusted=True).open(sandboxes.get_job_maker()) as box:
        answers = [box.submit(program) for program in ("answer = 1", poison, "answer = 2", "answer = 3")]
        found = [each.result(300) for each in answers]
    assert [each.value for each in found] == [1, None, 2, 3]
    assert found[1].failure == "it ended its worker on the cluster 3 times"
    assert (tally.evaluations, tally.given_up) == (4, 1)
    assert tally.again >= 2


def test_nothing_of_a_workers_environment_reaches_a_candidate(nodes):
    look = "import os; answer = [*os.environ.keys(), *os.environ.values()]"
    with place(1).open(sandboxes.get_job_maker()) as box:
        seen = box.run(look).value
    assert isinstance(seen, list)
    assert not {"ATOLL_TEST_API_KEY", "a secret"}.intersection(seen)
    assert not [name for name in seen if str(name).startswith("RAY_")]


def test_a_level_that_a_node_does_not_have_is_refused_before_the_first_candidate(nodes):
    with pytest.raises(errors.SetupError, match="cannot both be had"):
        place(1, require="L2", is_trusted=True).open(sandboxes.get_job_maker())


def test_a_job_that_cannot_be_made_is_said_once(nodes):
    def broken():
        raise FileNotFoundError("no data here")

    with pytest.raises(errors.SetupError, match="no data here"):
        place(1).open(broken)


def test_a_cluster_without_room_is_given_up_in_one_sentence(nodes):
    terms = fleets.RayConfig(resources={"unicorn": 1.0}, wait_seconds=0.5)
    with pytest.raises(errors.SetupError, match=r"no node of the cluster had room for 1 CPUs, 1 unicorn: start one"):
        place(1, terms=terms).open(sandboxes.get_job_maker())


def test_an_ordered_run_is_the_same_on_the_cluster(nodes, tmp_path):
    def export(*changes):
        run = {"iterations": 8, "seed": 5, "deterministic": True}
        plan = config.load(EXAMPLE, [{"run": run}, *changes])
        with runs.Session(kept, plan) as session:
            session.run()
        return list(kept.export(session.run_id)), session

    with store.Store(tmp_path / "atoll.db") as kept:
        here, _ = export()
        there, session = export({"executor": {"kind": "ray", "address": nodes.address}})
        last = kept.journal(session.run).read_last()
        assert runs.summarize(kept, session.run).status == "done"
    assert here == there
    assert last is not None
    assert last.data["executor"]["evaluations"] > 8
    assert last.data["executor"]["again"] == 0


def test_an_address_where_nobody_listens_is_said_at_once():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(errors.SetupError, match=f"There is no Ray cluster at {address} .*'ray start --head"):
        place(1, terms=fleets.RayConfig(address=address)).open(sandboxes.get_job_maker())


@pytest.mark.slow
def test_a_cluster_of_ones_own_ends_with_the_run(tmp_path):
    script = (
        "from atoll import executor, sandbox\n"
        "from atoll.testing import sandboxes\n"
        "terms = executor.Terms()\n"
        "with executor.Place(cluster=terms, is_unsafe=True).open(sandboxes.maker()) as box:\n"
        "    print(box.run('answer = 7').value)\n"
        "import ray\n"
        "print(ray.is_initialized())\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600, check=False)
    assert ended.stdout.split() == ["7", "False"], ended.stderr


def test_without_the_extra_one_sentence_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(errors.SetupError, match=r"--executor ray needs Ray: pip install 'atoll\[ray\]'"):
        place(1).open(sandboxes.get_job_maker())
