"""Three coordinators of one run, one of them killed at a random moment: the run completes as if nothing had been."""

import itertools
import os
import random
import signal
import time
from pathlib import Path

import pytest

from atoll import runs, store
from tests import processes

ROOT = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("ATOLL_KILLS", "3"))
TOML = """
system = "llmsr"
[task]
function = "equation"
[llmsr]
num_islands = 6
reset_evaluations = 60
[sandbox]
trusted = true
"""
TASK = '''
"""Find a line."""
import os
import time

inputs = [1.0, 2.0]


def equation(x: float) -> float:
    """Returns a number."""
    return 1.0 * x + 0.5


def evaluate(function, x):
    is_quick = os.path.exists(os.path.join(os.path.dirname(__file__), "go"))  # once all three are there
    time.sleep(0.002 if is_quick else 0.2)
    return -abs(function(x) - 3.0 * x + 1.0)
'''

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]


@pytest.fixture
def task(tmp_path):
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "atoll.toml").write_text(TOML)
    (folder / "task.py").write_text(TASK)
    return folder


def start(url, folder, iterations, *rest):
    arguments = ["-m", "tests.chaos.coordinator", url, str(folder), str(iterations), *rest]
    with (folder / "out").open("ab") as out:
        return processes.start(arguments, cwd=ROOT, stdout=out)


def num_applied(run_store, run):
    return sum(1 for _ in run_store.journal(run).read_kinds("applied"))


def survive(url, folder, iterations, seed):
    """Runs three coordinators, kills one at a random moment, and checks what the others made of it."""
    rng = random.Random(seed)
    first = start(url, folder, iterations)
    run = processes.wait_for_line(folder / "out", first)
    team = [first, *(start(url, folder, iterations, run) for _ in range(2))]
    try:
        with store.Store(url) as run_store:
            expected = rng.uniform(0.1, 0.6) * iterations
            while num_applied(run_store, run) < expected or len(owners(run_store, run)) < 3:
                assert all(item.poll() is None for item in team), "the run ended before a kill"
                if len(owners(run_store, run)) == 3:
                    (folder / "go").touch()
                time.sleep(0.05)
            (folder / "go").touch()
            victim = rng.choice(team)
            victim.send_signal(signal.SIGKILL)
            assert all(item.wait(600) == 0 for item in team if item is not victim)
            check(run_store, run, iterations)
    finally:
        for item in team:
            item.kill()
            item.wait()


def owners(run_store, run):
    return {item.owner for item in run_store.list_lease_intervals(run)}


def check(run_store, run, iterations):
    records = list(run_store.journal(run).read())
    applied = [record.step for record in records if record.kind == "applied"]
    evaluated = [record.data["id"] for record in records if record.kind == "judged"]
    assert sorted(applied) == list(range(1, iterations + 1))  # no island lost, no step twice
    assert len(evaluated) == len(set(evaluated))
    summary = runs.summarize(run_store, run)
    assert (summary.status, summary.totals.steps) == ("done", iterations)
    paid = 1 + sum(record.data["paid"] for record in records if record.kind == "judged")
    assert summary.totals.evaluations == paid
    for _, result in itertools.groupby(run_store.list_lease_intervals(run), key=lambda item: item.island):
        intervals = list(result)
        assert [item.token for item in intervals] == list(range(1, len(intervals) + 1))
        for earlier, later in itertools.pairwise(intervals):  # no island had two owners at once
            assert earlier.until is not None
            assert earlier.until <= later.since


def test_islands_of_killed_coordinator_are_taken_over(postgres_url, task):
    survive(postgres_url, task, 100, seed=os.environ.get("ATOLL_SEED", "1"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.parametrize("kind", ["postgres_url", "file"])
def test_run_survives_death_of_coordinator(request, tmp_path, task, kind, seed):
    url = str(tmp_path / "atoll.db") if kind == "file" else request.getfixturevalue(kind)
    survive(url, task, 600, seed)
