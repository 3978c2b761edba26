"""The base install has neither scipy nor pydantic-ai; the command line and the core work without them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

# Hides the packages of the extras `laws` and `openai` in the process, then runs Python code.
HIDE = """
import importlib.machinery, sys
find = importlib.machinery.PathFinder.find_spec
hidden = {"scipy", "pydantic_ai", "openai", "tiktoken"}
def hide(name, *rest):
    return None if name.split(".")[0] in hidden else find(name, *rest)
importlib.machinery.PathFinder.find_spec = hide
"""
COMMAND_LINE = HIDE + "from atoll import cli; sys.exit(cli.main(sys.argv[1:]))"
EXAMPLE = str(Path(__file__).parents[2] / "examples" / "kinetic_energy")


def run_python(code, *words, folder, **variables):
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_package_imports_without_extras(tmp_path):
    code = HIDE + "import atoll\nfor name in atoll.__all__: getattr(atoll, name)\nassert not hidden & set(sys.modules)"
    result = run_python(code, folder=tmp_path)
    assert result.returncode == 0, result.stderr


def test_demo_runs_without_extras(tmp_path):
    result = run_python(COMMAND_LINE, "demo", "--iterations", "20", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "best" in result.stdout


def test_law_search_names_its_extra(tmp_path):
    (tmp_path / "m.csv").write_text("x,y\n" + "\n".join(f"{x},{2 * x}" for x in range(1, 9)))
    result = run_python(COMMAND_LINE, "run", "m.csv", folder=tmp_path)
    assert result.returncode == 2
    assert "Law search needs scipy. Run: pip install 'atoll[laws]'" in result.stderr
    assert "Traceback" not in result.stderr


def test_hosted_llm_names_its_extra_before_the_run(tmp_path):
    result = run_python(
        COMMAND_LINE, "run", EXAMPLE, "--llm", "openai:gpt-5-mini", folder=tmp_path, OPENAI_API_KEY="not-a-real-key"
    )
    assert result.returncode == 2
    assert "pip install 'atoll[openai]'" in result.stderr
    assert "Traceback" not in result.stderr
