"""Every system under random faults: no evaluation is lost, no call is repeated, no process remains.

ATOLL_STORMS=40 is the long form; ATOLL_SEED repeats a test.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from atoll import store
from tests import fixtures
from tests.chaos import faults
from tests.cli import tasks

NUM_STORMS = int(os.environ.get("ATOLL_STORMS", "1"))
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MANY = str(2_000 * (1 + NUM_STORMS))  # iterations: more than the faults leave time for


class System(NamedTuple):
    """Task and arguments of a system."""

    task: str
    arguments: Sequence[str]
    asks: bool


SYSTEMS = {
    "llmsr": System("", ["--iterations", MANY, "--workers", "3"], asks=True),
    "programs": System("programs_minimum", ["--iterations", MANY, "--workers", "2"], asks=True),
    "mind": System("mind_natural_plan", ["--iterations", "500000"], asks=False),
    "survival": System("survival", ["--iterations", "400"], asks=False),
}


def make_response(prompt: str, number: int) -> str:
    """Returns a response that some systems can use; an unusable one makes a failed candidate."""
    return tasks.answer(prompt) if "def line_v" in prompt else f"```python\n# {number}\nx = {number % 7}\n```"


def load_stored(path: Path) -> tuple[set[str], list[tuple[int, str]], str | None]:
    """Returns the evaluated candidates, the stored responses with repetitions, and the run."""
    with store.Store(str(path)) as run_store:
        ids = [run.id for run in run_store.list_runs()]
        records = list(run_store.journal(ids[0]).read_kinds("judged", "replied")) if ids else []
    evaluated = [str(record.data["id"]) for record in records if record.kind == "judged"]
    assert len(evaluated) == len(set(evaluated)), "a candidate was evaluated twice"
    responses = [(record.step, str(record.data["call"])) for record in records if record.kind == "replied"]
    return set(evaluated), responses, ids[0] if ids else None


@pytest.mark.chaos
@pytest.mark.timeout(300 + 120 * NUM_STORMS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_run_with_many_faults_loses_nothing(tmp_path, name):
    seed = os.environ.get("ATOLL_SEED") or str(Random().random())
    rng, system = Random(f"{seed}/{name}"), SYSTEMS[name]
    folder = _task(tmp_path, system)
    model = faults.Model(make_response) if system.asks else None
    options = [*system.arguments, *(["--llm", model.name] if model else [])]
    disturbed_run = faults.DisturbedRun(tmp_path, ["run", str(folder), *options], model, rng, [])
    known_ids = set[str]()
    try:
        for fault in ["coordinator_killed", *rng.choices(list(faults.FAULTS), k=NUM_STORMS)]:
            output = f"fault {fault}, ATOLL_SEED={seed}"
            faults.FAULTS[fault](disturbed_run)
            _wait_until_no_process_is_left(disturbed_run)
            evaluated, responses, run = load_stored(disturbed_run.store)
            assert known_ids <= evaluated, output
            assert len(responses) == len(set(responses)), output
            known_ids = evaluated
            if run is not None:  # else it was killed before the run was created
                disturbed_run = disturbed_run._replace(command=["resume", run])
        _check_undisturbed_end(disturbed_run, known_ids, f"ATOLL_SEED={seed}")
    finally:
        if model is not None:
            model.close()


def _task(folder: Path, system: System) -> Path:
    if not system.task:
        return tasks.make(folder / "task")
    return Path(shutil.copytree(EXAMPLES / system.task, folder / "task"))


def _check_undisturbed_end(disturbed_run: faults.DisturbedRun, known_ids: set[str], output: str) -> None:
    """Resumes without faults and stops in order: all known candidates are stored, and no process remains."""
    last = disturbed_run.start()
    disturbed_run.wait_for_work(last)
    faults.stop(last)
    assert "Traceback" not in disturbed_run.read_errors(), output
    evaluated, responses, run = load_stored(disturbed_run.store)
    assert known_ids <= evaluated, output
    for line in (disturbed_run.folder / "out").read_text().splitlines():  # none if it was stopped before it began
        assert json.loads(line)["run"] == run, output
    if disturbed_run.model is not None:
        assert len(responses) <= disturbed_run.model.num_requests, output
    _wait_until_no_process_is_left(disturbed_run)


def _wait_until_no_process_is_left(disturbed_run: faults.DisturbedRun) -> None:
    fixtures.wait_until(lambda: not disturbed_run.list_remaining_processes())
