"""Option `--baselines` of `run` and `resume`, and the baselines in reports."""

import contextlib
import io
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from atoll import cli, control, evaluation, runs, store, testing
from atoll.runs import baselines
from tests.cli import tasks


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tasks.make(tmp_path / "task")
    return tmp_path


class Search(NamedTuple):
    """A run of six calls of an LLM with its baselines: the output, the messages and the number of all calls."""

    result: dict[str, Any]
    text: str
    num_requests: int


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Search]:
    """A store with a search, and the search."""
    folder, output, messages = tmp_path_factory.mktemp("search"), io.StringIO(), io.StringIO()
    tasks.make(folder / "task")
    with (
        testing.ModelServer(tasks.answer) as server,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(messages),
    ):
        command = ["run", "task", "--llm", f"openai:m@{server.url}", "--budget", "6calls", "--baselines", "--json"]
        assert cli.main(command) == 0, messages.getvalue()
    result = json.loads(output.getvalue().splitlines()[-1])
    return folder / "atoll.db", Search(result, messages.getvalue(), len(server.requests))


@pytest.fixture
def search(finished: tuple[Path, Search], folder: Path) -> Search:
    path, result = finished
    shutil.copy(path, folder)
    return result


def run(capsys, *arguments, status=0):
    assert cli.main([*arguments, "--json"]) == status, capsys.readouterr().err
    output = capsys.readouterr()
    return json.loads(output.out.splitlines()[-1]), output.err


def report(capsys):
    assert cli.main(["report", "latest"]) == 0
    return capsys.readouterr().out


def test_run_without_baselines_prints_command(capsys):  # P19
    result, text = run(capsys, "run", "task", "--iterations", "3")
    assert result["baselines"] == {"best_of_n": "not run", "sequential": "not run"}
    assert "Baselines: not run. Run them: " in text
    assert f"resume {result['run']} --baselines" in text
    assert f"Baselines: not run. 'atoll resume {result['run']} --baselines' runs them." in report(capsys)


def test_llm_run_has_three_baselines_with_equal_budget(capsys, search):  # P19
    result, text, num_requests = search
    data = result["baselines"]
    assert list(data) == ["best_of_n", "sequential", "no_llm"]
    assert "each gets as many evaluations and LLM calls as this run; LLM calls cost 3 times as much" in text
    assert "at most 18 calls in total" in text
    assert {name: item["calls"] for name, item in data.items() if name != "no_llm"} == {"best_of_n": 6, "sequential": 6}
    assert data["no_llm"]["calls"] == 0
    assert all(item["evaluations"] <= 1 + 6 for item in data.values())
    assert data["no_llm"]["evaluations"] == result["evaluations"]
    assert num_requests == 18
    assert all(f"| {title} | " in report(capsys) for title in baselines.TITLES.values())


def test_best_of_n_derives_every_child_from_initial_program(search):
    result = search.result
    with store.Store("atoll.db") as run_store:
        rows = list(run_store.candidates(result["baselines"]["best_of_n"]["run"]))
        chain = list(run_store.candidates(result["baselines"]["sequential"]["run"]))
    assert {row.parents for row in rows if row.step} == {("0.0",)}
    assert all(len(row.parents) == 1 for row in chain if row.step)
    assert {row.island for row in [*rows, *chain]} == {0}


def test_baselines_can_run_later_and_grow_with_run(capsys):
    first, _ = run(capsys, "run", "task", "--budget", "5evals")
    later, _ = run(capsys, "resume", first["run"], "--baselines")
    baseline = later["baselines"]["best_of_n"]
    assert baseline["evaluations"] == first["evaluations"] == 5
    more, _ = run(capsys, "resume", first["run"], "--budget", "4evals", "--baselines")
    assert more["evaluations"] == 9
    assert more["baselines"]["best_of_n"] == {
        **baseline,
        "evaluations": 9,
        "best_score": more["baselines"]["best_of_n"]["best_score"],
    }


def test_resumed_run_reports_outdated_baselines(capsys):
    run(capsys, "run", "task", "--budget", "5evals", "--baselines")
    assert "Baselines, one run each, with as many evaluations and LLM calls" in report(capsys)
    run(capsys, "resume", "latest", "--budget", "4evals")
    assert "with a smaller budget than this run" in report(capsys)
    run(capsys, "resume", "latest", "--baselines")
    assert "Baselines, one run each, with as many evaluations and LLM calls" in report(capsys)


def test_latest_is_never_a_baseline_and_baselines_have_none(capsys):
    first, _ = run(capsys, "run", "task", "--budget", "4evals", "--baselines")
    baseline = first["baselines"]["best_of_n"]["run"]
    with store.Store("atoll.db") as run_store:
        assert runs.find_run(run_store, "latest") == first["run"]
        assert baselines.find_baselines(run_store, baseline) == []
    assert cli.main(["list"]) == 0
    assert f"best of N for {first['run']}" in capsys.readouterr().out
    assert cli.main(["report", baseline]) == 0
    assert "\nBaselines: not run.\n" in capsys.readouterr().out


def test_baseline_that_needs_an_llm_has_a_reason(capsys, folder):
    (folder / "text").mkdir()
    (folder / "text" / "initial_program.txt").write_text("Be kind.\n")
    (folder / "text" / "evaluator.py").write_text("def evaluate(path):\n    return len(open(path).read())\n")
    rewrite = ["--set", "programs.diff_based_evolution=false", "--budget", "2calls"]
    with testing.ModelServer(lambda prompt, number: f"```text\nBe kind, {number}.\n```") as server:
        command = ["run", "text/initial_program.txt", "text/evaluator.py", "--llm", f"openai:m@{server.url}"]
        result, _ = run(capsys, *command, *rewrite, "--baselines")
    assert "pass an LLM with --llm" in result["baselines"]["no_llm"]
    assert result["baselines"]["best_of_n"]["calls"] == 2


def test_method_of_a_run_cannot_change(capsys):
    result, _ = run(capsys, "run", "task", "--iterations", "3", "--set", "run.method=best_of_n")
    assert cli.main(["resume", result["run"], "--set", "run.method=evolve"]) == 2
    assert "run.method cannot change in a run that has begun." in capsys.readouterr().err


def test_equal_budget_is_usage_within_same_seconds_and_dollars():
    used = runs.Totals(40, 35, 3, evaluation.Cost(calls=42, usd=0.3))
    limits = control.Budget(iterations=100, calls=50, usd=1.0, seconds=60.0)
    assert baselines.make_equal_budget(limits, used, "best_of_n") == control.Budget(400, 43, 42, None, 1.0, 60.0)
    assert baselines.make_equal_budget(limits, used, "no_llm") == control.Budget(400, 35, None, None, None, 60.0)
