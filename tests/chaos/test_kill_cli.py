"""`kill -9` of `atoll run` and `atoll resume`, against an LLM server that counts requests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from atoll import store, testing
from tests import processes
from tests.cli import tasks
from tests.repetitions import choose

NUM_KILLS = max(2, int(os.environ.get("ATOLL_KILLS", choose(4, 6))) // 2)
NUM_WORKERS = 4
NUM_STEPS = 60 * NUM_KILLS


def start(folder: Path, url: str, *arguments: str, is_forked: bool = True) -> processes.AnyProcess:
    command = ["-P", "-m", "atoll", *arguments, "--store", url, "--workers", str(NUM_WORKERS), "--json"]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        if is_forked:
            return processes.start(command, cwd=folder, stdout=out, stderr=err)
        return subprocess.Popen([sys.executable, *command], cwd=folder, stdout=out, stderr=err)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "kept.db")


def load_stored(url: str) -> tuple[set[str], set[tuple[int, str]], str | None]:
    """Returns the evaluated candidates, the responses and the run in the store."""
    if "://" not in url and not Path(url).exists():
        return set(), set(), None
    with store.Store(url) as run_store:
        ids = [run.id for run in run_store.list_runs()]
        records = list(run_store.journal(ids[0]).read_kinds("judged", "replied")) if ids else []
    evaluated = {record.data["id"] for record in records if record.kind == "judged"}
    responses = {(record.step, record.data["call"]) for record in records if record.kind == "replied"}
    return evaluated, responses, ids[0] if ids else None


def kill_at_work(victim: processes.AnyProcess, server: testing.ModelServer, rng: Random) -> None:
    """Waits until the run calls the LLM, and kills it soon after."""
    before, deadline = server.num_requests, time.monotonic() + 60
    while server.num_requests == before and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(rng.random() * 0.3)
    assert victim.poll() is None, "the run ended before it was killed"
    victim.send_signal(signal.SIGKILL)
    victim.wait()


def arguments(url: str, model_url: str) -> Sequence[str]:
    _, _, run = load_stored(url)
    if run is None:
        return ["run", "task", "--llm", f"openai:m@{model_url}", "--iterations", str(NUM_STEPS)]
    return ["resume", run]


@pytest.mark.chaos
@pytest.mark.timeout(120 + 30 * NUM_KILLS)
def test_killed_command_loses_nothing_and_repeats_no_call(tmp_path, file):
    kill_often(tmp_path, file)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(300 + 60 * NUM_KILLS)
def test_killed_postgres_command_loses_nothing_and_repeats_no_call(tmp_path, postgres_url):
    kill_often(tmp_path, postgres_url)


def kill_often(tmp_path: Path, url: str) -> None:
    tasks.make(tmp_path / "task")
    rng = Random(os.environ.get("ATOLL_SEED"))
    evaluated, responses = set[str](), set[tuple[int, str]]()

    def reply(prompt: str, number: int) -> str:
        time.sleep(0.02)
        return tasks.answer(prompt)

    with testing.ModelServer(reply) as server:
        for _ in range(NUM_KILLS):
            kill_at_work(start(tmp_path, url, *arguments(url, server.url)), server, rng)
            now_evaluated, now_bought, _ = load_stored(url)
            assert evaluated <= now_evaluated
            assert responses <= now_bought
            evaluated, responses = now_evaluated, now_bought
        last = start(tmp_path, url, *arguments(url, server.url))
        assert last.wait(timeout=120) == 0, (tmp_path / "err").read_text()
        requests = server.num_requests
    final_evaluated, final_bought, run = load_stored(url)
    result = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    assert evaluated <= final_evaluated
    assert len(final_bought) == result["calls"] == result["steps"] == NUM_STEPS
    assert requests <= len(final_bought) + NUM_WORKERS * (NUM_KILLS + 1)
    assert (result["run"], result["status"]) == (run, "done")
    with store.Store(url) as run_store:
        rows = list(run_store.candidates(result["run"]))
        assert result["best_score"] == max(row.score for row in rows if row.score is not None)
        assert len(run_store.list_runs()) == 1


def test_killed_run_exports_same_bytes_as_undisturbed_run(tmp_path, file):
    steps = 80
    tasks.make(tmp_path / "task")

    def reply(prompt: str, number: int) -> str:
        time.sleep(0.01)
        return tasks.answer(prompt)

    with testing.ModelServer(reply) as server:
        options = ["run", "task", "--llm", f"openai:m@{server.url}", "--iterations", str(steps), "--deterministic"]
        kill_at_work(start(tmp_path, file, *options), server, Random(3))
        _, _, killed = load_stored(file)
        assert killed is not None
        for again in (["resume", killed], options):  # in new processes: their hash seeds differ
            status = start(tmp_path, file, *again, is_forked=False).wait(timeout=60)
            assert status == 0, (tmp_path / "err").read_text()
    with store.Store(file) as run_store:
        one, other = (list(run_store.export(run.id)) for run in run_store.list_runs())
    assert one == other
    assert len(one) > steps // 2
