"""The race of systems: its tasks, its endpoint and its tables."""

import ast
import importlib.util
import json
import math
import sqlite3
import subprocess
import sys
import time
import urllib.request

import pytest

from atoll.testing import server
from bench import race, race_endpoint, race_shinka, race_systems, race_tables
from bench.race_systems import Program

TASKS = race.list_tasks()
WITHOUT_TEST = {"circles", "partition"}  # these construct one object, so there is no other data


def load(task):
    spec = importlib.util.spec_from_file_location(f"race_{task}", race.TASKS / task / "evaluator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tasks_are_openevolve_folders_with_a_hidden_test():
    assert len(TASKS) >= 8
    for task in TASKS:
        names = {path.name for path in (race.TASKS / task).iterdir()}
        assert {"initial_program.py", "evaluator.py", "config.yaml"} <= names
        assert hasattr(load(task), "evaluate_test") == (task not in WITHOUT_TEST)


def test_evaluators_share_the_code_that_runs_programs():
    copies = set()
    for task in TASKS:
        tree = ast.parse((race.TASKS / task / "evaluator.py").read_text())
        functions = {node.name: ast.dump(node) for node in tree.body if isinstance(node, ast.FunctionDef)}
        copies.add((functions["judge"], functions["run_child"], functions["load_and_measure"]))
    assert len(copies) == 1


@pytest.mark.process
@pytest.mark.parametrize("task", TASKS)
def test_initial_program_has_a_score_above_that_of_failures(task):
    evaluator = load(task)
    result = evaluator.evaluate(str(race.TASKS / task / "initial_program.py"))
    assert math.isfinite(result["combined_score"]), result
    assert result["combined_score"] > evaluator.FAIL == race_systems.find_fail_score(race.TASKS / task), result


@pytest.mark.process
@pytest.mark.parametrize("task", ["binpack", "circles", "vocabulary"])
def test_hanging_program_is_killed(task, tmp_path):
    evaluator, program = load(task), tmp_path / "program.py"
    program.write_text("import os, time\nos.fork()\ntime.sleep(100)\n")
    evaluator.SECONDS, started = 0.3, time.monotonic()
    assert evaluator.evaluate(str(program))["combined_score"] == evaluator.FAIL
    assert time.monotonic() - started < 5


@pytest.mark.process
@pytest.mark.parametrize("task", ["classify", "flowshop", "maxsat", "oscillator"])
def test_program_without_the_function_fails_with_an_error(task, tmp_path):
    evaluator, program = load(task), tmp_path / "program.py"
    program.write_text("print('@ 7')\n")
    result = evaluator.evaluate(str(program))
    assert result["combined_score"] == evaluator.FAIL
    assert "has no attribute" in result["error"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("def tour(points):\n    return 1 / 0\n", "ZeroDivisionError: division by zero (line 2 of the program)"),
        ("import os\nos._exit(0)\n", "ended the process"),
        ("def tour(points:\n", "SyntaxError"),
    ],
)
def test_failing_program_gets_an_error_text(text, error, tmp_path):
    evaluator, program = load("tsp"), tmp_path / "program.py"
    program.write_text(text)
    result = evaluator.evaluate(str(program))
    assert (result["combined_score"], error in result["error"]) == (evaluator.FAIL, True), result


@pytest.mark.process
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_score_that_is_not_finite_is_a_failure(number, tmp_path):
    evaluator, program = load("denoise"), tmp_path / "program.py"
    program.write_text(f"import numpy as np\ndef denoise(signal):\n    return np.full(400, float('{number}'))\n")
    assert evaluator.evaluate(str(program))["combined_score"] == evaluator.FAIL


@pytest.mark.process
def test_judge_uses_the_hidden_test_and_ignores_output(tmp_path, monkeypatch):
    monkeypatch.setattr(race_systems, "JUDGE_TIMES", 1)
    folder, program = race.TASKS / "roots", tmp_path / "program.py"
    program.write_text("print('5')\n" + (folder / "initial_program.py").read_text())
    assert race_systems.judge(folder, program) == load("roots").evaluate_test(str(program))["combined_score"]


@pytest.mark.process
def test_endpoint_counts_the_calls_of_each_run():
    with server.ModelServer(lambda prompt, number: "fine") as model, race_endpoint.CountingEndpoint(model.url) as here:
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
        for run in ("a", "a", "b"):
            request = urllib.request.Request(
                f"{here.get_url(run)}/chat/completions", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request) as response:
                assert "fine" in response.read().decode()
        assert [here.get_usage(run).calls for run in "abc"] == [2, 1, 0]
        assert here.get_usage("a").tokens_in > 0


def test_search_measures():
    programs = [
        Program("0", None, 0, 1.0, "start"),
        Program("1", "0", 1, 5.0, "first"),
        Program("2", "0", 2, -9.0, "failed"),
        Program("3", "1", 6, 10.0, "second"),
        Program("4", "0", 10, 2.0, "first\n"),
    ]
    measured = race_tables.measure_search(programs, calls=20, workers=1, fail_score=-9.0)
    assert (measured["distinct"], measured["yield"], measured["valid"]) == (3, 0.15, 0.1)  # "first" is there twice
    assert measured["calls_to_gain"] == 12  # iteration 6 of 10
    assert (measured["from_best"], measured["from_initial"]) == (0.75, 0.75)


def test_comparison_uses_medians_of_common_seeds():
    def rows(system, scores):
        return [{"task": "t", "system": system, "seed": seed, "judged": score} for seed, score in enumerate(scores)]

    compared = race_tables.compare(
        [*rows("atoll", [3, 4, 5]), *rows("openevolve", [1, 2, 2.5, 9]), *rows("atoll:x", [4, 3, 5])]
    )
    assert {(line[0], line[1]): line[2:] for line in compared} == {
        ("atoll", "openevolve"): [1, 0, 0, 1, 0],
        ("atoll", "atoll:x"): [0, 1, 0, 0, 0],
        ("atoll:x", "openevolve"): [1, 0, 0, 1, 0],
        ("atoll:x", "atoll"): [0, 1, 0, 0, 0],
    }


def test_share_by_run_compares_every_run_with_the_best_one():
    rows = [{"task": "t", "system": name, "seed": seed, "judged": score}
            for name, scores in (("atoll", [3.0, 0.0]), ("sequential", [5.0, 1.0]))
            for seed, score in enumerate(scores)]  # fmt: skip
    assert race_tables.list_run_shares(rows, "t", "atoll", 1.0) == [0.5, 0.0]
    assert race_tables.list_run_shares(rows, "t", "sequential", 5.0) == []
    tables = race_tables.make_tables(rows, {"t": 1.0})
    columns, lines = tables["All tasks"]
    assert [line[list(columns).index("mean share by run (95 %)")] for line in lines] == [
        "25% (0% to 50%)",
        "50% (0% to 100%)",
    ]


def test_finished_runs_are_read_and_failed_ones_are_not(tmp_path):
    row = {
        "task": "t",
        "seed": 0,
        "system": "atoll",
        "budget": 9,
        "llm": "openai:m@http://127.0.0.1:1/v1",
        "judged": 1.0,
    }
    path = tmp_path / "runs.jsonl"
    rows = [row, row | {"seed": 1, "error": "x"}, row | {"seed": 2, "budget": 8}]
    path.write_text("".join(json.dumps(item) + "\n" for item in rows) + '{"task": "t", "se')
    assert list(race.read_rows(path, 9, "openai:m@http://127.0.0.1:2/v1")) == [race.Key("t", 0, "atoll")]


def test_variant_has_a_name_and_options():
    assert race_systems.parse_variant("atoll:a=--set run.seed=1 --workers 2") == (
        "atoll:a",
        ["--set", "run.seed=1", "--workers", "2"],
    )
    with pytest.raises(ValueError, match="does not have the form"):
        race_systems.parse_variant("openevolve:a=--x")


def test_shinka_needs_its_package(tmp_path):
    assert "--shinka-path" in race_systems.find_obstacle("shinka", "", str(tmp_path))
    (tmp_path / "shinka").mkdir()
    assert race_systems.find_obstacle("shinka", "", str(tmp_path)) == ""


def test_shinka_evaluates_a_program(tmp_path):
    folder = race_systems.copy_task(race.TASKS / "roots", tmp_path)
    (folder / "bad.py").write_text("def f(")
    scores = list[tuple[bool, float]]()
    for name in ("initial_program.py", "bad.py"):
        command = [
            sys.executable,
            race_shinka.__file__,
            "--program_path",
            str(folder / name),
            "--results_dir",
            tmp_path,
        ]
        subprocess.run(command, cwd=tmp_path, check=True)
        metrics, correct = (json.loads((tmp_path / file).read_text()) for file in ("metrics.json", "correct.json"))
        scores.append((correct["correct"], metrics["combined_score"]))
    assert scores == [(True, pytest.approx(scores[0][1])), (False, race_systems.find_fail_score(folder))]


def test_programs_of_shinka_are_read_without_copies(tmp_path):
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        connection.execute(
            "CREATE TABLE programs (id, parent_id, generation, combined_score, correct, code, timestamp REAL)"
        )
        rows = [("a", None, 0, 1.0, 1, "x", 1.0), ("b", "a", 0, 1.0, 1, "x", 2.0), ("c", "a", 1, -9.0, 0, "y", 3.0)]
        connection.executemany("INSERT INTO programs VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    programs = [Program(**row) for row in race_shinka.read_programs(tmp_path / "a.sqlite")]
    assert programs == [Program("a", None, 0, 1.0, "x"), Program("c", "a", 1, None, "y")]
