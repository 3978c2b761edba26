"""Folders in OpenEvolve's ways, run unmodified by the command line (P1 to P6, P20): written for this project."""

import json
from pathlib import Path
from typing import Any

import pytest

from atoll import cli, store, testing

PROGRAM = """\
# EVOLVE-BLOCK-START
def value():
    return 0.25
# EVOLVE-BLOCK-END
"""
HEAD = "import runpy\n\ndef found(path): return float(runpy.run_path(path)['value']())\n"
RESULT = "from openevolve.evaluation_result import EvaluationResult\n"


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def run(place, capsys):
    """Makes a folder, runs it, and returns the JSON line and what was said."""

    def make(evaluator: str, config: str = "", *more: str, files: dict[str, str] | None = None, status: int = 0):
        folder = Path(place / "task")
        folder.mkdir(mode=0o755)
        texts = {"initial_program.py": PROGRAM, "evaluator.py": HEAD + evaluator, "config.yaml": config}
        for name, text in (texts | (files or {})).items():
            (folder / name).write_text(text)
        arguments = ["run", "task", "--iterations", "3", "--json", *more]
        assert cli.main(arguments) == status, capsys.readouterr().err
        told = capsys.readouterr()
        result: dict[str, Any] = json.loads(told.out.splitlines()[-1]) if told.out else {}
        return result, told.err

    return make


def start(result: dict[str, Any]) -> Any:
    with store.Store("atoll.db") as kept:
        return kept.candidates(result["run"]).get("0.0")


EVALUATORS = {
    "a dict": "def evaluate(path): return {'combined_score': found(path), 'other': 9.0}",
    "a result": RESULT
    + "def evaluate(path): return EvaluationResult({'combined_score': found(path)}, {'log': 'well'})",
    "no combined score": "def evaluate(path): return {'a': found(path), 'b': found(path), 'size': 50.0, 'on': True}",
    "a number": "def evaluate(path): return found(path)",
    "a pair": "def evaluate(path): return found(path), 'a hint'",
    "a coroutine": "async def evaluate(path): return {'combined_score': found(path)}",
    "metrics that are no numbers": "def evaluate(path): return {'combined_score': found(path), 'artifacts': {'a': 'b'},"
    " 'nothing': None, 'word': 'text', 'dict': {'x': 1}, 'far': float('inf')}",
    "a sibling": "import fixtures\ndef evaluate(path): return {'combined_score': found(path) * fixtures.ONE}",
    "its configuration": "import os, yaml\ndef evaluate(path):\n    here = os.path.dirname(os.path.abspath(__file__))\n"
    "    said = yaml.safe_load(open(os.path.join(here, 'config.yaml')))\n"
    "    return {'combined_score': found(path) * len(said)}",
    "a subprocess": "import subprocess, sys\ndef evaluate(path):\n"
    "    code = f'import runpy; print(runpy.run_path({path!r})[\"value\"]())'\n"
    "    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)\n"
    "    return {'combined_score': float(said.stdout)}",
    "a cascade": "def evaluate_stage1(path): return {'combined_score': 0.9, 'quick': 1.0}\n"
    "def evaluate_stage2(path): return {'combined_score': found(path)}\n"
    "def evaluate(path): return {'combined_score': -1.0}",
    "a class of its own": "class Result:\n    def __init__(self, metrics): self.metrics, self.artifacts = metrics, {}\n"
    "def evaluate(path): return Result({'combined_score': found(path)})",
    "a module that looks itself up": "import sys\ndef evaluate(path):\n"
    "    return {'combined_score': found(path) * (sys.modules['evaluation_module'].evaluate is evaluate)}",
}


@pytest.mark.parametrize("name", EVALUATORS)
def test_what_an_evaluator_may_be(run, name):
    config = "database: {feature_dimensions: [size]}"
    result, _ = run(EVALUATORS[name], config, files={"fixtures.py": "ONE = 1.0\n"})
    assert result["initial_score"] == 0.25
    assert result["status"] == "done"
    assert start(result).failure is None


def test_features_are_kept_and_do_not_count_where_there_is_no_combined_score(run):
    result, _ = run("def evaluate(path): return {'a': 0.5, 'size': 99.0}", "database: {feature_dimensions: [size]}")
    assert result["initial_score"] == 0.5
    assert start(result).metrics == {"a": 0.5, "size": 99.0}


def test_a_model_rewrites_or_changes_by_diffs(run):
    def rewrite(prompt: str, number: int) -> str:
        return f"```python\n{PROGRAM.replace('0.25', f'0.{60 + number}')}```"

    with testing.ModelServer(rewrite) as server:
        config = "diff_based_evolution: false"
        more = ("--llm", f"openai:m@{server.url}")
        result, _ = run("def evaluate(path): return {'combined_score': found(path)}", config, *more)
    assert result["best_score"] == pytest.approx(0.62)


def test_a_program_without_markers_and_a_prompt_are_whole(run, place):
    with testing.ModelServer(lambda prompt, number: "```\nlonger text " + "x" * number + "\n```") as server:
        result, _ = run(
            "",
            "diff_based_evolution: false",
            "--llm",
            f"openai:m@{server.url}",
            files={
                "initial_prompt.txt": "short",
                "evaluator.py": "def evaluate(path): return {'combined_score': float(len(open(path).read()))}",
                "initial_program.py": "",
            },
        )
    assert result["initial_score"] in (0.0, 5.0)


def test_a_variable_that_an_evaluator_reads_is_told_with_how_to_show_it(run):
    source = "import os\ndef evaluate(path): return {'combined_score': float(os.environ['TASK_NUM'])}"
    _, said = run(source, status=1)
    assert said.count("sandbox.env") == 2, "in the header and in the failure"
    assert "it reads TASK_NUM, which the sandbox hides; to allow: --set 'sandbox.env=[\"TASK_NUM\"]'" in said


def test_one_that_is_read_at_once_too(run):
    _, said = run("import os\nNUM = os.environ['TASK_NUM']\ndef evaluate(path): return 1.0", status=2)
    assert "to allow: --set 'sandbox.env=[\"TASK_NUM\"]'" in said


def test_a_variable_that_is_shown_is_read(run, monkeypatch):
    monkeypatch.setenv("TASK_NUM", "7")
    source = "import os\ndef evaluate(path): return {'combined_score': float(os.environ['TASK_NUM'])}"
    result, said = run(source, "", "--set", 'sandbox.env=["TASK_NUM"]')
    assert result["initial_score"] == 7.0
    assert "which the sandbox hides" not in said


def test_the_header_names_the_model_that_is_not_asked_and_keys_without_effect(run):
    config = "log_level: INFO\nparallel_evaluations: 1\nllm: {models: [{name: gpt-x}]}"
    _, said = run("def evaluate(path): return found(path)", config)
    assert "config.yaml names openai:gpt-x, which is not used: pass --llm config to use it" in said
    assert "config.yaml: log_level has no effect" in said
    assert "the nearest is evaluator.parallel_evaluations" in said


def test_a_review_counts_and_is_never_bought_twice(run):
    def answer(prompt: str, number: int) -> str:
        if "Rate this" in prompt:
            return '{"readability": 1.0}'
        return f"```python\n{PROGRAM.replace('0.25', f'0.{30 + number}')}```"

    config = "diff_based_evolution: false\nevaluator: {use_llm_feedback: true}"
    with testing.ModelServer(answer) as server:
        more = ("--llm", f"openai:m@{server.url}")
        result, _ = run("def evaluate(path): return {'combined_score': found(path)}", config, *more)
        asked = server.num_requests
        assert cli.main(["resume", result["run"], "--iterations", "0"]) == 0
        assert server.num_requests == asked
    assert result["initial_score"] == pytest.approx(0.7 * 0.25 + 0.3)


def test_patience_ends_a_run(run):
    config = "max_iterations: 500\nearly_stopping_patience: 5"
    result, _ = run("def evaluate(path): return 1.0", config, "--iterations", "500")
    assert result["reason"] == "no gain of at least 0.001 in 5 iterations"


def test_a_longer_program_is_a_failed_proposal(run):
    with testing.ModelServer(lambda prompt, number: f"```python\n{PROGRAM}{'#' * 500}\n```") as server:
        config = "max_code_length: 100\ndiff_based_evolution: false"
        files = {"initial_program.py": "def value():\n    return 0.25\n"}
        result, _ = run("def evaluate(path): return 1.0", config, "--llm", f"openai:m@{server.url}", files=files)
    assert (result["failures"], result["evaluations"]) == (3, 1)
