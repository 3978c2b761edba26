"""Command `check`, and errors of evaluators at the start of a run."""

import os
from pathlib import Path

import pytest

from atoll.sandbox import missing_modules
from tests.cli import apps

pytestmark = pytest.mark.process


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


def make_task(folder: Path, evaluator: str, program: str = "x = 1\n") -> str:
    folder.mkdir()
    (folder / "initial_program.py").write_text(program)
    (folder / "evaluator.py").write_text(evaluator)
    return str(folder)


def test_check_reports_noise_time_sandbox_and_budget(shell, tmp_path):
    evaluator = "import os\ndef evaluate(path):\n    return 1 + int.from_bytes(os.urandom(2)) / 65536\n"
    task = make_task(tmp_path / "task", evaluator)
    data = shell("check", task, "--repeats", "4", "--json").json()
    assert (data["ok"], data["is_noisy"], len(data["scores"])) == (True, True, 4)
    assert 60 <= data["budget_seconds"] <= 3600
    assert data["sandbox"].startswith("L")
    output = shell("check", task)
    assert "standard deviation" in output.out
    assert f"run {task} --budget 60s" in output.out
    assert not list(tmp_path.glob("**/*.db"))


def test_check_of_a_prompt_needs_no_llm(shell, tmp_path):
    (tmp_path / "initial_prompt.txt").write_text("Answer.\n")
    (tmp_path / "evaluator.py").write_text("def evaluate(path):\n    return len(open(path).read())\n")
    data = shell("check", str(tmp_path), "--repeats", "1", "--json").json()
    assert (data["ok"], data["scores"], data["needs_llm"]) == (True, [8.0], True)
    assert f"run {tmp_path} --llm LLM --budget 100calls" in shell("check", str(tmp_path), "--repeats", "1").out
    assert "pass an LLM with --llm" in shell.fail("run", str(tmp_path), "--store", str(tmp_path / "a.db"))


def test_block_without_end_is_named(shell, tmp_path):
    program = "# EVOLVE-BLOCK-START\nx = 1\n"
    task = make_task(tmp_path / "task", "def evaluate(path):\n    return 1\n", program)
    message = shell.fail("run", task, "--store", str(tmp_path / "a.db"))
    assert message == (
        "The numbers of EVOLVE-BLOCK-START (1) and EVOLVE-BLOCK-END (0) in initial_program.py differ. Close every "
        "block."
    )


def test_check_names_missing_modules_with_the_command(shell, tmp_path):
    task = make_task(tmp_path / "task", "def evaluate(path):\n    import no_such_module_x\n    return 1\n")
    output = shell("check", task, "--json", status=1)
    assert output.json()["missing"] == ["no_such_module_x"]
    assert output.json()["install"].endswith("-m pip install no_such_module_x")
    assert "no_such_module_x" in output.json()["failure"]


def test_syntax_error_of_the_program_is_named(shell, tmp_path):
    task = make_task(tmp_path / "task", "def evaluate(path):\n    return 1\n", "x = [\n")
    message = shell.fail("run", task, "--store", str(tmp_path / "a.db"))
    assert (
        message == "initial_program.py is not valid Python: '[' was never closed (initial_program.py, line 1). Fix it."
    )


@pytest.mark.parametrize(
    "evaluator",
    [
        "import no_such_module_x\ndef evaluate(path):\n    return 1\n",
        "def evaluate(path):\n    import no_such_module_x\n    return 1\n",
        "def evaluate(path):\n    return {'combined_score': 0.0, 'error': \"No module named 'no_such_module_x'\"}\n",
    ],
    ids=["top", "inside", "reported"],
)
def test_missing_module_of_evaluator_stops_run_at_the_start(shell, tmp_path, evaluator):
    task = make_task(tmp_path / "task", evaluator)
    output = shell("run", task, "--store", str(tmp_path / "a.db"), "-i", "5", status=2)
    assert "-m pip install no_such_module_x" in output.err


def test_score_of_zero_with_an_error_is_a_failure(shell, tmp_path):
    evaluator = """
def evaluate(path):
    text = open(path).read()
    if "x = 1" in text:
        return {"combined_score": 0.5}
    return {"combined_score": 0.0, "error": "the page could not be parsed"}
"""
    task = make_task(tmp_path / "task", evaluator)
    data = shell("run", task, "--store", str(tmp_path / "a.db"), "-i", "5", "--json", "-q").json()
    assert data["failures"] > 0
    assert data["best_score"] == 0.5


def test_package_names_of_modules():
    assert missing_modules.get_install_command(["bs4", "sklearn.svm"]).endswith("install beautifulsoup4 scikit-learn")
    assert missing_modules.describe_missing("it raised ModuleNotFoundError: No module named 'cv2'").endswith(
        "install opencv-python"
    )
    assert not missing_modules.describe_missing("it raised ValueError")
    source = "import os, no_such_a\nfrom no_such_b.c import d\ntry:\n    import no_such_c\nexcept ImportError: pass\n"
    assert missing_modules.find_missing(source, Path(os.curdir)) == ["no_such_a", "no_such_b"]
    assert missing_modules.find_missing("import (", Path(os.curdir)) == ()


def test_header_says_that_a_program_without_a_block_changes_as_a_whole(shell, tmp_path):
    evaluator = "def evaluate(path):\n    return 1\n"
    store = str(tmp_path / "a.db")
    task = make_task(tmp_path / "plain", evaluator)
    remark = "the whole program: it has no EVOLVE-BLOCK-START"
    assert remark in shell("run", task, "-i", "0", "--store", store).err
    task = make_task(tmp_path / "marked", evaluator, "# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n")
    assert remark not in shell("run", task, "-i", "0", "--store", store).err
