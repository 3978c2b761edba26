"""Every system under random storms: nothing judged is lost, nothing is paid twice, no process is left.

ATOLL_STORMS=40 is the long form; ATOLL_SEED repeats what was seen.
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
from tests import toys
from tests.chaos import weather
from tests.cli import tasks

NUM_STORMS = int(os.environ.get("ATOLL_STORMS", "1"))
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MANY = str(2_000 * (1 + NUM_STORMS))  # steps: more than the storms leave time for


class System(NamedTuple):
    """How a system is sent on its way."""

    task: str
    arguments: Sequence[str]
    asks: bool


SYSTEMS = {
    "llmsr": System("", ["--iterations", MANY, "--workers", "3"], asks=True),
    "programs": System("programs_minimum", ["--iterations", MANY, "--workers", "2"], asks=True),
    "mind": System("mind_natural_plan", ["--iterations", "500000"], asks=False),
    "survival": System("survival", ["--iterations", "400"], asks=False),
}


def answer(prompt: str, number: int) -> str:
    """Says something that some systems can use; a reply that cannot be read is a candidate like another."""
    return tasks.answer(prompt) if "def line_v" in prompt else f"```python\n# {number}\nx = {number % 7}\n```"


def stored(path: Path) -> tuple[set[str], list[tuple[int, str]], str | None]:
    """Returns who was judged, which replies were bought, each as often as it was, and the run."""
    with store.Store(str(path)) as kept:
        ids = [run.id for run in kept.list_runs()]
        records = list(kept.journal(ids[0]).read_kinds("judged", "replied")) if ids else []
    judged = [str(record.data["id"]) for record in records if record.kind == "judged"]
    assert len(judged) == len(set(judged)), "somebody was judged twice"
    bought = [(record.step, str(record.data["call"])) for record in records if record.kind == "replied"]
    return set(judged), bought, ids[0] if ids else None


@pytest.mark.chaos
@pytest.mark.timeout(300 + 120 * NUM_STORMS)
@pytest.mark.parametrize("name", SYSTEMS)
def test_a_run_goes_through_storms_and_loses_nothing(tmp_path, name):
    seed = os.environ.get("ATOLL_SEED") or str(Random().random())
    rng, system = Random(f"{seed}/{name}"), SYSTEMS[name]
    folder = _task(tmp_path, system)
    model = weather.Model(answer) if system.asks else None
    given = [*system.arguments, *(["--llm", model.name] if model else [])]
    voyage = weather.Voyage(tmp_path, ["run", str(folder), *given], model, rng, [])
    seen = set[str]()
    try:
        for storm in ["coordinator_killed", *rng.choices(list(weather.STORMS), k=NUM_STORMS)]:
            told = f"storm {storm}, ATOLL_SEED={seed}"
            weather.STORMS[storm](voyage)
            _nobody_is_left(voyage)
            judged, bought, run = stored(voyage.store)
            assert seen <= judged, told
            assert len(bought) == len(set(bought)), told
            seen = judged
            if run is not None:  # else it was killed before there was one
                voyage = voyage._replace(command=["resume", run])
        _comes_home(voyage, seen, f"ATOLL_SEED={seed}")
    finally:
        if model is not None:
            model.close()


def _task(folder: Path, system: System) -> Path:
    if not system.task:
        return tasks.make(folder / "task")
    return Path(shutil.copytree(EXAMPLES / system.task, folder / "task"))


def _comes_home(voyage: weather.Voyage, seen: set[str], told: str) -> None:
    """Goes on in fair weather and is stopped in good order: all that was seen is there, and nobody is left."""
    last = voyage.start()
    voyage.wait_for_work(last)
    weather.stop(last)
    assert "Traceback" not in voyage.said(), told
    judged, bought, run = stored(voyage.store)
    assert seen <= judged, told
    for line in (voyage.folder / "out").read_text().splitlines():  # none where it was stopped before it had begun
        assert json.loads(line)["run"] == run, told
    if voyage.model is not None:
        assert len(bought) <= voyage.model.num_requests, told
    _nobody_is_left(voyage)


def _nobody_is_left(voyage: weather.Voyage) -> None:
    toys.until(lambda: not voyage.left_over())
