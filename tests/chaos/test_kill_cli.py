"""`kill -9` of `atoll run` and `atoll resume`, against a model server that counts."""

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
from tests.cli import tasks

NUM_KILLS = max(3, int(os.environ.get("ATOLL_KILLS", "6")) // 2)
NUM_WORKERS = 4
NUM_STEPS = 60 * NUM_KILLS


def start(folder: Path, url: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-P", "-m", "atoll", *arguments, "--store", url, "--workers", str(NUM_WORKERS)]
    with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
        return subprocess.Popen([*command, "--json"], cwd=folder, stdout=out, stderr=err)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "kept.db")


def stored(url: str) -> tuple[set[str], set[tuple[int, str]], str | None]:
    """Returns the candidates that were judged, the replies that were bought and the run, as the store has them."""
    if "://" not in url and not Path(url).exists():
        return set(), set(), None
    with store.Store(url) as kept:
        ids = [run.id for run in kept.list_runs()]
        records = list(kept.journal(ids[0]).read_kinds("judged", "replied")) if ids else []
    judged = {record.data["id"] for record in records if record.kind == "judged"}
    bought = {(record.step, record.data["call"]) for record in records if record.kind == "replied"}
    return judged, bought, ids[0] if ids else None


def kill_at_work(victim: subprocess.Popen[bytes], server: testing.ModelServer, rng: Random) -> None:
    """Waits until the victim asks the model, and kills it soon after."""
    before, deadline = server.num_requests, time.monotonic() + 60
    while server.num_requests == before and victim.poll() is None and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(rng.random() * 0.3)
    assert victim.poll() is None, "the run was over before it was killed"
    victim.send_signal(signal.SIGKILL)
    victim.wait()


def arguments(url: str, model_url: str) -> Sequence[str]:
    _, _, run = stored(url)
    if run is None:
        return ["run", "task", "--llm", f"openai:m@{model_url}", "--iterations", str(NUM_STEPS)]
    return ["resume", run]


@pytest.mark.chaos
@pytest.mark.timeout(120 + 30 * NUM_KILLS)
def test_a_run_killed_again_and_again_loses_nothing_and_buys_nothing_twice(tmp_path, file):
    kill_often(tmp_path, file)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(300 + 60 * NUM_KILLS)
def test_a_run_in_postgres_killed_again_and_again_loses_nothing_and_buys_nothing_twice(tmp_path, postgres_url):
    kill_often(tmp_path, postgres_url)


def kill_often(tmp_path: Path, url: str) -> None:
    tasks.make(tmp_path / "task")
    rng = Random(os.environ.get("ATOLL_SEED"))
    judged, bought = set[str](), set[tuple[int, str]]()

    def reply(prompt: str, number: int) -> str:
        time.sleep(0.02)
        return tasks.answer(prompt)

    with testing.ModelServer(reply) as server:
        for _ in range(NUM_KILLS):
            kill_at_work(start(tmp_path, url, *arguments(url, server.url)), server, rng)
            now_judged, now_bought, _ = stored(url)
            assert judged <= now_judged
            assert bought <= now_bought
            judged, bought = now_judged, now_bought
        last = start(tmp_path, url, *arguments(url, server.url))
        assert last.wait(timeout=120) == 0, (tmp_path / "err").read_text()
        requests = server.num_requests
    final_judged, final_bought, run = stored(url)
    result = json.loads((tmp_path / "out").read_text().splitlines()[-1])
    assert judged <= final_judged
    assert len(final_bought) == result["calls"] == result["steps"] == NUM_STEPS
    assert requests <= len(final_bought) + NUM_WORKERS * (NUM_KILLS + 1)
    assert (result["run"], result["status"]) == (run, "done")
    with store.Store(url) as kept:
        rows = list(kept.candidates(result["run"]))
        assert result["best_score"] == max(row.score for row in rows if row.score is not None)
        assert len(kept.list_runs()) == 1


def test_a_killed_run_ends_in_the_same_bytes_as_one_that_was_left_alone(tmp_path, file):
    steps = 80
    tasks.make(tmp_path / "task")

    def reply(prompt: str, number: int) -> str:
        time.sleep(0.01)
        return tasks.answer(prompt)

    with testing.ModelServer(reply) as server:
        given = ["run", "task", "--llm", f"openai:m@{server.url}", "--iterations", str(steps), "--deterministic"]
        kill_at_work(start(tmp_path, file, *given), server, Random(3))
        _, _, killed = stored(file)
        assert killed is not None
        for again in (["resume", killed], given):
            assert start(tmp_path, file, *again).wait(timeout=60) == 0, (tmp_path / "err").read_text()
    with store.Store(file) as kept:
        one, other = (list(kept.export(run.id)) for run in kept.list_runs())
    assert one == other
    assert len(one) > steps // 2
