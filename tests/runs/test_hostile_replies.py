"""No reply of an LLM ends a run, and a run that has stored one resumes."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any

import pytest

import atoll
from atoll import cluster, config, control, llm, playbook, runs, store
from atoll.runs import markdown_report, progress
from tests.cli import tasks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HALF = "\ud83d"  # half of an emoji
LAW = "```python\ndef line_v1(x, y):\n    return x * len('{}') * {}\n```"
FUNCTION = "def search(num_tries, seed):\n    return 0.1, '{}' and {}"
BLOCK = f"```python\n# EVOLVE-BLOCK-START\n{FUNCTION}\n# EVOLVE-BLOCK-END\n```"
REPLIES = [
    f"{HALF}\n{LAW.format(HALF, 2.0)}",
    f"{HALF}\n{BLOCK.format(HALF, 0.2)}",
    json.dumps({"goal": HALF, "steps": [HALF], "lessons": [HALF], "deltas": [{"kind": "add", "content": HALF}]}),
    f"\0\n{LAW.format(chr(0), 3.0)}",
    "```python\nx = 1\n```\n" * 1000,
    "````md\n```python\n" * 50 + "x = 1\n" + "```\n````\n" * 50,
    "這是一個程式。\n```python\n数 = 'שלום'\n```\nπ",
    "",
    "[" * 1000,
]


class HostileLLM:
    """Gives one hostile reply after the other, from any thread."""

    def __init__(self) -> None:
        self._replies, self._lock = cycle(REPLIES), Lock()
        self.num_calls = 0

    def __call__(self, prompt: str) -> str:
        with self._lock:
            self.num_calls += 1
            return next(self._replies)


def run(folder: Path, store_path: Path, iterations: int, min_calls: int = 1, **sections: Any) -> str:
    """Runs a task, resumes it for one more iteration, and returns the run."""
    model = HostileLLM()

    def make_llm(run_config: config.RunConfig) -> llm.LLM:
        return llm.FunctionLLM(model)

    run_section = {"llm": "python:a.py:b", "iterations": iterations, "workers": 2}
    run_config = config.load(folder, [{"run": run_section, **sections}])
    with store.Store(str(store_path)) as run_store:
        with runs.Session(run_store, run_config, llm_factory=make_llm) as session:
            session.run()
            session.conclude()
        assert model.num_calls >= min_calls
        assert runs.summarize(run_store, session.run_id).status == "done"
        with runs.resume(run_store, session.run_id, [{"run": {"iterations": 1}}], llm_factory=make_llm) as resumed:
            resumed.run()
            resumed.conclude()
        summary = runs.summarize(run_store, session.run_id)
    assert (summary.status, summary.totals.steps) == ("done", iterations + 1)
    return session.run_id


@pytest.mark.process
@pytest.mark.parametrize(("task", "iterations"), [("", 9), ("programs_minimum", 5), ("mind_natural_plan", 4)])
def test_run_goes_on(tmp_path, task, iterations):
    folder = tasks.make(tmp_path / "task") if not task else shutil.copytree(EXAMPLES / task, tmp_path / "task")
    run(Path(folder), tmp_path / "runs.db", iterations)


@pytest.mark.process
def test_survival_goes_on(tmp_path):
    folder = Path(shutil.copytree(EXAMPLES / "survival", tmp_path / "task"))
    run(folder, tmp_path / "runs.db", 1, min_calls=3 * len(REPLIES), survival={"max_turns": 60})


@pytest.mark.parametrize("initial", ["a text", {"a": "one text", "b": "another"}])
def test_evolve_goes_on(initial):
    result = atoll.evolve(initial, lambda text: float(len(str(text))), llm=HostileLLM(), budget="9calls", unsafe=True)
    assert result.cost.llm_calls == 9
    assert HALF not in str(result.best)


def test_playbook_goes_on():
    island = playbook.make_island(
        store.MemoryVersions(),
        "run",
        lambda iteration, book: playbook.Experience("a task", feedback="it failed"),
        reflector=playbook.make_reflector(llm.JournaledLLM(llm.FunctionLLM(HostileLLM()))),
    )
    evolver = cluster.Evolver(cluster.EvolverConfig(island, budget=control.Budget(iterations=9), num_parallel=1))
    evolver.run()
    assert evolver.reason == "budget of 9 iterations used"


def edit_journal(path: Path, change: Callable[[Any], Any]) -> None:
    """Rewinds a run to its first reply and changes what is stored of it."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TABLE seals")  # as in an old store
        connection.execute("DELETE FROM records WHERE kind NOT IN ('started', 'founded', 'begun', 'replied')")
        for seq, data in connection.execute("SELECT seq, data FROM records WHERE kind = 'replied'").fetchall():
            connection.execute("UPDATE records SET data = ? WHERE seq = ?", (json.dumps(change(json.loads(data))), seq))
    connection.close()


@pytest.mark.process
def test_old_journal_with_half_a_character_resumes(tmp_path):
    def answer(prompt: str) -> str:
        return LAW.format("MARK", 2.0)

    folder, path = tasks.make(tmp_path / "task"), tmp_path / "runs.db"
    run_config = config.load(folder, [{"run": {"llm": "python:a.py:b", "iterations": 1}}])
    with (
        store.Store(str(path)) as run_store,
        runs.Session(run_store, run_config, llm_factory=lambda run_config: llm.FunctionLLM(answer)) as session,
    ):
        session.run()
    edit_journal(path, lambda data: {**data, "text": data["text"].replace("MARK", HALF)})
    never_called = llm.RecordedLLM([])
    with store.Store(str(path)) as run_store:
        with runs.resume(run_store, session.run_id, llm_factory=lambda run_config: never_called) as resumed:
            resumed.run()
        summary = runs.summarize(run_store, session.run_id)
        assert (summary.status, summary.totals.failures, summary.totals.evaluations) == ("done", 0, 2)
        assert "\ufffd" in run_store.candidates(session.run_id).get("1.0").content


EVALUATOR = """
import sys
from openevolve.evaluation_result import EvaluationResult

def evaluate(path):
    sys.stdout.buffer.write(b"\\xed\\xa0\\xbd \\x00 \\xff")
    artifacts = {"\\ud83d": "\\ud83d\\0", "bytes": b"\\xff\\0"}
    return EvaluationResult(metrics={"combined_score": 1.0, "\\ud83d": 2.0, "feedback": "\\ud83d"}, artifacts=artifacts)
"""


@pytest.mark.process
def test_output_of_candidates_is_stored(tmp_path):
    (tmp_path / "task").mkdir()
    (tmp_path / "task/initial_program.py").write_text((EXAMPLES / "programs_minimum/initial_program.py").read_text())
    (tmp_path / "task/evaluator.py").write_text(EVALUATOR)
    run_id = run(tmp_path / "task", tmp_path / "runs.db", 2)
    with store.Store(str(tmp_path / "runs.db")) as run_store:
        initial = run_store.candidates(run_id).get("0.0")
        assert initial.score == 1.0
        "\n".join(markdown_report.iter_report_lines(run_store, run_id)).encode()
        json.dumps(progress.row_to_data(initial), ensure_ascii=False).encode()


def test_response_is_cut_and_cleaned():
    response = llm.FunctionLLM(lambda prompt: f"{HALF}\0" + "a" * 50_000_000)("a prompt")
    assert response.text[:3] == "\ufffd\ufffda"
    assert len(response.text) == 2**20


def test_response_without_text_is_refused():
    text: Any = Random(0)
    with pytest.raises(TypeError, match="text of an LLM response"):
        llm.Response(text, "a model")
