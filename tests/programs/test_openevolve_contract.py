"""OpenEvolve folders, run unmodified by the command line (P1 to P6, P20)."""

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
def work_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    tmp_path.chmod(0o755)
    return tmp_path


@pytest.fixture
def run(work_folder, capsys):
    """Makes a folder, runs it, and returns the JSON line and the messages."""

    def make(evaluator: str, config: str = "", *more: str, files: dict[str, str | None] | None = None, status: int = 0):
        folder = Path(work_folder / "task")
        folder.mkdir(mode=0o755, exist_ok=True)
        texts: dict[str, str | None] = {
            "initial_program.py": PROGRAM,
            "evaluator.py": HEAD + evaluator,
            "config.yaml": config,
        }
        for name, text in (texts | (files or {})).items():
            if text is not None:
                (folder / name).write_text(text)
        arguments = ["run", "task", "--iterations", "3", "--json", *more]
        assert cli.main(arguments) == status, capsys.readouterr().err
        output = capsys.readouterr()
        result: dict[str, Any] = json.loads(output.out.splitlines()[-1]) if output.out else {}
        return result, output.err

    return make


def get_initial(result: dict[str, Any]) -> Any:
    with store.Store("atoll.db") as database:
        return database.candidates(result["run"]).get("0.0")


EVALUATORS = {
    "a dict": "def evaluate(path): return {'combined_score': found(path), 'other': 9.0}",
    "a result": RESULT
    + "def evaluate(path): return EvaluationResult({'combined_score': found(path)}, {'log': 'well'})",
    "no combined score": "def evaluate(path): return {'a': found(path), 'b': found(path), 'size': 50.0, 'on': True}",
    "a number": "def evaluate(path): return found(path)",
    "a pair": "def evaluate(path): return found(path), 'a hint'",
    "a coroutine": "async def evaluate(path): return {'combined_score': found(path)}",
    "other metrics": "def evaluate(path): return {'combined_score': found(path), 'artifacts': {'a': 'b'},"
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
def test_evaluator_forms_give_the_same_score(run, name):
    config = "database: {feature_dimensions: [size]}"
    result, _ = run(EVALUATORS[name], config, files={"fixtures.py": "ONE = 1.0\n"})
    assert result["initial_score"] == 0.25
    assert result["status"] == "done"
    assert get_initial(result).failure is None


def test_features_are_stored_but_left_out_of_the_mean(run):
    result, _ = run("def evaluate(path): return {'a': 0.5, 'size': 99.0}", "database: {feature_dimensions: [size]}")
    assert result["initial_score"] == 0.5
    assert get_initial(result).metrics == {"a": 0.5, "size": 99.0}


def test_llm_rewrites_the_program(run):
    def rewrite(prompt: str, number: int) -> str:
        return f"```python\n{PROGRAM.replace('0.25', f'0.{60 + number}')}```"

    with testing.ModelServer(rewrite) as server:
        config = "diff_based_evolution: false"
        more = ("--llm", f"openai:m@{server.url}", "--set", "programs.policy=openevolve")
        result, _ = run("def evaluate(path): return {'combined_score': found(path)}", config, *more)
    assert result["best_score"] == pytest.approx(0.62)


def test_prompt_file_evolves_as_a_whole(run, work_folder):
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


BARE_TEMPLATE = """\
# Current Prompt Information
- Metrics: {metrics}
{artifacts}
{evolution_history}

# Current Prompt
{current_program}

# Task
Keep the placeholder {{text}}. Provide ONLY the complete new prompt text:

NEW PROMPT:"""
BARE_CONFIG = """
diff_based_evolution: false
language: text
random_seed: 1
llm:
  models:
    - {name: writer, api_base: "URL", api_key: sk-in-the-file-0123456789, temperature: 0.9, max_tokens: 300}
prompt: {template_dir: templates, system_message: You improve prompts.}
evaluator: {use_llm_feedback: true}
"""


def test_templates_that_ask_for_bare_text_evolve(run, work_folder):
    def obey(prompt: str, number: int) -> str:
        if "Rate {clarity}" in prompt:
            return '{"clarity": 0.5}'
        return f"Classify {{text}}. Think for {number} steps." if "{text}" in prompt else "The placeholder is missing."

    templates = work_folder / "task" / "templates"
    texts = {"full_rewrite_user": BARE_TEMPLATE, "evaluation": "Rate {{clarity}}:\n```\n{current_program}\n```"}
    texts["evaluator_system_message"] = "You rate prompts."
    work_folder.joinpath("task").mkdir(mode=0o755)
    templates.mkdir()
    for name, text in texts.items():
        (templates / f"{name}.txt").write_text(text)
    evaluator = "def evaluate(path): return {'combined_score': float(len(open(path).read()))}"
    with testing.ModelServer(obey) as server:
        result, message = run(
            "",
            BARE_CONFIG.replace("URL", server.url),
            *("--llm", "config", "--workers", "1"),
            files={"initial_prompt.txt": "Classify {text}.", "evaluator.py": evaluator, "initial_program.py": None},
        )
        writing = [request for request in server.requests if "NEW PROMPT:" in request.get_prompt()]
        rating = [request for request in server.requests if "NEW PROMPT:" not in request.get_prompt()]
    assert len(writing) == 3  # no response was refused
    assert result["failures"] == 0
    assert result["best_score"] > result["initial_score"]
    assert "has no effect" not in message
    for request in writing:
        (role, system_text), (_, user_text) = request.get_messages()
        assert (role, system_text) == ("system", "You improve prompts.")
        assert "Keep the placeholder {text}." in user_text
        assert (request.parse_data()["temperature"], request.parse_data()["max_tokens"]) == (0.9, 300)
        assert request.headers["authorization"] == "Bearer sk-in-the-file-0123456789"
    assert all(request.get_messages()[0] == ("system", "You rate prompts.") for request in rating)
    stored = b"".join(path.read_bytes() for path in work_folder.glob("atoll.db*"))
    assert b"sk-in-the-file" not in stored
    with store.Store("atoll.db") as database:
        assert database.candidates(result["run"]).get(result["best"]).content.startswith("Classify {text}. Think")


def test_hidden_variable_is_reported_with_its_setting(run):
    source = "import os\ndef evaluate(path): return {'combined_score': float(os.environ['TASK_NUM'])}"
    _, message = run(source, status=1)
    assert message.count("sandbox.env") == 2, "header and failure"
    assert "it reads TASK_NUM, which the sandbox hides; to allow: --set 'sandbox.env=[\"TASK_NUM\"]'" in message


def test_hidden_variable_read_on_import_is_reported(run):
    _, message = run("import os\nNUM = os.environ['TASK_NUM']\ndef evaluate(path): return 1.0", status=2)
    assert "to allow: --set 'sandbox.env=[\"TASK_NUM\"]'" in message


def test_allowed_variable_reaches_the_evaluator(run, monkeypatch):
    monkeypatch.setenv("TASK_NUM", "7")
    source = "import os\ndef evaluate(path): return {'combined_score': float(os.environ['TASK_NUM'])}"
    result, message = run(source, "", "--set", 'sandbox.env=["TASK_NUM"]')
    assert result["initial_score"] == 7.0
    assert "which the sandbox hides" not in message


def test_header_names_unused_llm_and_keys_without_effect(run):
    config = "log_level: INFO\nparallel_evaluations: 1\nllm: {models: [{name: gpt-x}]}"
    _, message = run("def evaluate(path): return found(path)", config)
    assert "config.yaml names openai:gpt-x, which is not used: pass --llm config to use it" in message
    assert "config.yaml: log_level has no effect" in message
    assert "the nearest is evaluator.parallel_evaluations" in message


def test_llm_review_counts_and_is_not_repeated_on_resume(run):
    def answer(prompt: str, number: int) -> str:
        if "Rate this" in prompt:
            return '{"readability": 1.0}'
        return f"```python\n{PROGRAM.replace('0.25', f'0.{30 + number}')}```"

    config = "diff_based_evolution: false\nevaluator: {use_llm_feedback: true}"
    with testing.ModelServer(answer) as server:
        more = ("--llm", f"openai:m@{server.url}")
        result, _ = run("def evaluate(path): return {'combined_score': found(path)}", config, *more)
        num_requests = server.num_requests
        assert cli.main(["resume", result["run"], "--iterations", "0"]) == 0
        assert server.num_requests == num_requests
    assert result["initial_score"] == pytest.approx(0.7 * 0.25 + 0.3)


def test_patience_stops_the_run(run):
    config = "max_iterations: 500\nearly_stopping_patience: 5"
    result, _ = run("def evaluate(path): return 1.0", config, "--iterations", "500")
    assert result["reason"] == "no gain of at least 0.001 in 5 iterations"


def test_program_over_max_code_length_is_a_failed_proposal(run):
    with testing.ModelServer(lambda prompt, number: f"```python\n{PROGRAM}{'#' * 500}\n```") as server:
        config = "max_code_length: 100\ndiff_based_evolution: false"
        files = {"initial_program.py": "def value():\n    return 0.25\n"}
        result, _ = run("def evaluate(path): return 1.0", config, "--llm", f"openai:m@{server.url}", files=files)
    assert (result["failures"], result["evaluations"]) == (3, 1)
