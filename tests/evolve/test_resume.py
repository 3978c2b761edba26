"""Resume of `atoll.evolve`: nothing is evaluated or bought twice."""

import os
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

import atoll
from atoll import errors, store
from tests import processes
from tests.evolve import resume_victim

ROOT = Path(__file__).resolve().parents[2]


def read_lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def kill_often(folder: Path, num_kills: int) -> None:
    """Kills a run at random moments, resumes it, and counts repeated calls.

    A call that ends at the moment of a kill may be lost, before it is stored: at most one per worker thread and kill.
    """
    rng, num_done = Random(7), 0
    arguments = ["-m", "tests.evolve.resume_victim", str(folder)]
    for _ in range(num_kills):
        with open(os.devnull, "wb") as null:
            process = processes.start(arguments, cwd=ROOT, stderr=null)
        num_before = len(read_lines(folder / "evaluations"))
        deadline = time.monotonic() + 60
        while process.poll() is None and len(read_lines(folder / "evaluations")) == num_before:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(rng.random() * 0.15)
        num_done += process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
    last = processes.run(arguments, cwd=ROOT)
    assert last.returncode == 0, last.stderr
    score, test, status, calls = (folder / "score").read_text().split()
    assert (float(score), status) == (1.0, "done")
    assert test == "0.0"
    evaluations, prompts = (Counter(read_lines(folder / name)) for name in ("evaluations", "prompts"))
    assert num_done < num_kills / 2  # most kills came during the run
    assert sum(evaluations.values()) - len(evaluations) <= 2 * num_kills
    assert max(evaluations.values()) <= 2
    assert sum(prompts.values()) - len(prompts) <= num_kills
    assert sum(evaluations.values()) <= 400 + 4 + 2 * num_kills
    assert int(calls) <= 400


@pytest.mark.chaos
@pytest.mark.timeout(120)
def test_killed_run_resumes_without_repeated_calls(tmp_path):
    kill_often(tmp_path, 2)


@pytest.mark.slow
@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_run_killed_ten_times_resumes_without_repeated_calls(tmp_path):
    kill_often(tmp_path, 10)


class TestResume:
    def evolve(self, log: list[str], **options: Any) -> Any:
        def evaluate(text: str) -> tuple[float, str]:
            log.append(text)
            return float(len(text)), "longer"

        def model(prompt: str) -> str:
            log.append("prompt")
            return f"IDEA: longer.\n```text\n{'word ' * sum(line == 'prompt' for line in log)}\n```"

        return atoll.evolve(
            "go", evaluate, llm=model, **{"budget": "6evals", "store": "atoll.db", "verbose": False, **options}
        )

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def test_finished_run_returns_its_result_at_once(self):
        log = list[str]()
        first = self.evolve(log)
        calls = len(log)
        again = self.evolve(log, resume=True)
        assert len(log) == calls
        assert (again.run, again.score, again.best) == (first.run, first.score, first.best)
        assert again.cost.evaluator_calls == first.cost.evaluator_calls

    def test_larger_budget_continues_run(self):
        log = list[str]()
        first = self.evolve(log, resume=True)  # starts a run, since there is none
        second = self.evolve(log, resume=first.run, budget="9evals")
        assert second.run == first.run
        assert second.cost.evaluator_calls == 9
        texts = [line for line in log if line != "prompt"]
        assert len(texts) == len(set(texts)) == 9

    def test_other_settings_start_another_run(self):
        log = list[str]()
        first = self.evolve(log)
        assert self.evolve(log, resume=True, seed=1).run != first.run
        assert self.evolve(log).run != first.run
        with store.Store("atoll.db") as run_store:
            assert len(run_store.list_runs()) == 3

    def test_changed_arguments_are_named(self):
        log = list[str]()
        first = self.evolve(log)
        with pytest.raises(errors.SetupError, match="seed and target changed"):
            self.evolve(log, resume=first.run, seed=1, target=5.0)
        with pytest.raises(errors.SetupError, match="not found"):
            self.evolve(log, resume="nothing")

    def test_resume_needs_store(self):
        with pytest.raises(errors.SetupError, match="resume needs a stored run"):
            self.evolve([], resume=True, store=None)

    def test_task_folder_resumes(self, tmp_path):
        task = tmp_path / "task"
        task.mkdir()
        (task / "initial_program.py").write_text("def f(x):\n    return x + 1.0\n")
        (task / "evaluator.py").write_text(
            "def evaluate(path):\n    names = {}\n    exec(open(path).read(), names)\n"
            "    return -abs(names['f'](2) - 60)\n"
        )
        options: dict[str, Any] = {"store": tmp_path / "task.db", "resume": True, "verbose": False, "unsafe": True}
        first = atoll.evolve(task, budget="5evals", **options)
        second = atoll.evolve(task, budget="8evals", **options)
        assert first.run == second.run
        assert second.cost.evaluator_calls == 8


def test_victim_makes_progress_in_one_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = resume_victim.run()
    assert result.score == 1.0
    evaluations = read_lines(tmp_path / "evaluations")
    assert len(evaluations) == len(set(evaluations)) == result.cost.evaluator_calls + 4
    assert os.path.exists("atoll.db")
