"""`kill -9` at random moments, each followed by a resume: nothing is lost, no stored response is requested again."""

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest

from atoll import store
from tests import processes
from tests.repetitions import choose

ROOT = Path(__file__).resolve().parents[2]
NUM_KILLS = int(os.environ.get("ATOLL_KILLS", choose(3, 5)))  # the long form: ATOLL_KILLS=50
NUM_WORKERS = 4


def steps(num_kills: int) -> int:
    return 200 * num_kills  # long enough to be alive at every kill


@pytest.fixture(params=["file", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store with an empty run, of each kind."""
    result = str(tmp_path / "atoll.db" if request.param == "file" else request.getfixturevalue("postgres_url"))
    with store.Store(result) as run_store:
        run_store.create_run("run", {})
    return result


def start(folder: Path, url: str, num_steps: int) -> processes.AnyProcess:
    arguments = ["-m", "tests.chaos.victim", url, "run", str(folder), str(num_steps), str(NUM_WORKERS)]
    with (folder / "errors").open("wb") as errors:
        return processes.start(arguments, cwd=ROOT, stderr=errors)


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def load_stored(url: str) -> tuple[set[str], set[tuple[int, str]]]:
    """Returns the evaluated candidates and the responses in the journal."""
    with store.Store(url) as run_store:
        records = list(run_store.journal("run").read())
    evaluated = {record.data["id"] for record in records if record.kind == "judged"}
    return evaluated, {(record.step, record.data["call"]) for record in records if record.kind == "replied"}


@pytest.mark.chaos
@pytest.mark.timeout(60 + NUM_KILLS * 10)
def test_killed_run_loses_nothing_and_repeats_no_call(tmp_path: Path, url: str) -> None:
    kill_often(tmp_path, url, NUM_KILLS if "://" not in url else 2)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(300 + NUM_KILLS * 60)
def test_killed_postgres_run_loses_nothing(tmp_path: Path, postgres_url: str) -> None:
    with store.Store(postgres_url) as run_store:
        run_store.create_run("run", {})
    kill_often(tmp_path, postgres_url, NUM_KILLS)


def kill_often(tmp_path: Path, url: str, num_kills: int) -> None:
    num_steps = steps(num_kills)
    rng, kills, evaluated, replied = Random(os.environ.get("ATOLL_SEED")), 0, set[str](), set[tuple[int, str]]()
    while kills < num_kills:
        asked_before = len(lines(tmp_path / "requests"))
        victim = start(tmp_path, url, num_steps)
        while kills % 3 and len(lines(tmp_path / "requests")) == asked_before and victim.poll() is None:
            time.sleep(0.005)  # two of three kills hit a run at work, the third any moment from its very start
        time.sleep(rng.random() * (0.25 if kills % 3 else 1.0))
        assert victim.poll() is None, "the run was over before it was killed often enough"
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        kills += 1
        now_evaluated, now_replied = load_stored(url)
        assert evaluated <= now_evaluated
        assert replied <= now_replied
        evaluated, replied = now_evaluated, now_replied
    last = start(tmp_path, url, num_steps)
    assert last.wait(timeout=240) == 0, (tmp_path / "errors").read_text()

    final_evaluated, final_replied = load_stored(url)
    requests = lines(tmp_path / "requests")
    assert evaluated <= final_evaluated
    assert len(final_evaluated) == num_steps
    assert len(final_replied) == 2 * num_steps
    assert len(requests) <= len(final_replied) + NUM_WORKERS * (kills + 1)
    assert len(lines(tmp_path / "judged")) <= 1 + num_steps + NUM_WORKERS * (kills + 1)
    with store.Store(url) as run_store:
        rows = list(run_store.candidates("run"))
        best = run_store.candidates("run").list_best()[0]
        applied = [record.step for record in run_store.journal("run").read() if record.kind == "applied"]
    assert sorted(applied) == list(range(1, num_steps + 1))
    assert best.score == max(row.score for row in rows if row.score is not None and row.verdict == "accept")


@pytest.mark.chaos
@pytest.mark.parametrize("url", ["file", pytest.param("postgres", marks=pytest.mark.slow)], indirect=True)
def test_stored_response_is_never_requested_again(tmp_path: Path, url: str) -> None:
    rng, num_steps = Random(7), steps(NUM_KILLS)
    for _ in range(3):
        victim = start(tmp_path, url, num_steps)
        asked_before = len(lines(tmp_path / "requests"))
        while len(lines(tmp_path / "requests")) < asked_before + 20 and victim.poll() is None:
            time.sleep(0.005)
        time.sleep(rng.random() * 0.05)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        _, replied = load_stored(url)
        asked_before = len(lines(tmp_path / "requests"))
        again = start(tmp_path, url, num_steps)
        while len(lines(tmp_path / "requests")) < asked_before + 20 and again.poll() is None:
            time.sleep(0.005)
        again.send_signal(signal.SIGKILL)
        again.wait()
        requested = {(int(step), call) for step, call in map(str.split, lines(tmp_path / "requests")[asked_before:])}
        assert not requested & replied
