"""A folder of CSV files as a task: from the command line, with all that a run offers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atoll import cli, testing


def write(path: Path, rows: int, low: float, high: float) -> None:
    x = np.random.default_rng(rows).uniform(low, high, (rows, 2))
    y = 2.0 * x[:, 0] ** 2 - 0.7 * x[:, 0] * x[:, 1]
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="mass,speed,force", comments="")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    (tmp_path / "task").mkdir()
    settings = 'system = "llmsr"\n[task]\ndata = "../data"\n[llmsr]\nnum_islands = 2\n[run]\nworkers = 1\n'
    (tmp_path / "task" / "atoll.toml").write_text(settings)
    data = tmp_path / "data"
    data.mkdir()
    write(data / "train.csv", 150, 0.5, 3.0)
    write(data / "test_ood.csv", 50, 3.0, 5.0)
    return data


def run(capsys, *arguments: str, status: int = 0) -> tuple[dict[str, Any], str]:
    assert cli.main([*arguments, "--json"]) == status
    told = capsys.readouterr()
    return json.loads(told.out.splitlines()[-1]) if told.out else {}, told.err


def test_the_law_its_size_and_its_errors_are_told(capsys):
    result, _ = run(capsys, "run", "task", "--iterations", "30")
    assert result["status"] == "done"
    assert result["nmse"]["train"] < 1e-20
    assert result["nmse"]["test_ood"] < 1e-20
    assert "test_id" not in result["nmse"]
    assert "mass" in result["law"]
    assert result["size"] == next(each["size"] for each in result["front"] if each["law"] == result["law"])


def test_the_report_shows_the_whole_front_and_the_best_is_a_python_function(capsys):
    result, _ = run(capsys, "run", "task", "--iterations", "30")
    assert cli.main(["report", "latest"]) == 0
    page = capsys.readouterr().out
    assert "## The result" in page
    assert all(each["law"] in page for each in result["front"])
    assert cli.main(["best", "latest"]) == 0
    assert "def equation(mass, speed):" in capsys.readouterr().out


def test_a_run_that_goes_on_is_the_run_that_was_never_stopped(capsys):
    whole, _ = run(capsys, "run", "task", "--iterations", "12", "--store", "whole.db")
    first, _ = run(capsys, "run", "task", "--iterations", "6", "--store", "parts.db")
    second, _ = run(capsys, "resume", "latest", "--iterations", "6", "--store", "parts.db")
    assert first["steps"] == 6
    assert (second["law"], second["front"]) == (whole["law"], whole["front"])
    assert second["status"] == "done"


def test_a_test_file_is_not_opened_before_the_search_is_over(data, capsys):
    (data / "test_ood.csv").write_text("mass,speed,force\n1,2,much\n")
    _, said = run(capsys, "run", "task", "--iterations", "2", status=2)
    assert "force is 'much', which is no number" in said
    assert cli.main(["best", "latest"]) == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,y\n", "holds no rows"),
        ("1,2\n3,4\n", "has no header"),
        ("y\n1\n2\n", "has one column, y"),
        ("a,y\n1,2\n1,x\n", "line 3: y is 'x', which is no number"),
        ("a,y\n1,2\n1\n", "line 3 has 1 cells, and the header 2"),
        ("a,y\n" + "1,2\nnan,3\n" * 8, "a is nan in row 2"),
        ("a,y\n" + "1,2\n1,3\n" * 8, "a is 1.0 in every row"),
        ("a,y\n1,2\n2,3\n", "has 2 rows, fewer than a law has constants"),
        ("a,y\n1,\x00\n", "train.csv"),
    ],
)
def test_data_that_cannot_be_used_is_named_in_one_sentence(content, said, data, capsys):
    (data / "train.csv").write_text(content)
    _, told = run(capsys, "run", "task", "--iterations", "2", status=2)
    assert said in told
    assert "Traceback" not in told


def test_a_folder_without_training_data_is_named(capsys):
    _, told = run(capsys, "run", "task", "--set", "task.data=nowhere", "--iterations", "2", status=2)
    assert "is no folder: task.data must name one with train.csv" in told


def test_a_model_writes_equations_whose_constants_are_fitted(capsys):
    def answer(prompt: str, number: int) -> str:
        return (
            "```python\ndef equation_v2(mass, speed, params):\n    return params[0]*mass**2 + params[1]*mass*speed\n```"
        )

    with testing.ModelServer(answer) as server:
        result, _ = run(capsys, "run", "task", "--llm", f"openai:tiny@{server.url}", "--iterations", "2")
    assert result["nmse"]["train"] < 1e-20
    assert result["nmse"]["test_ood"] < 1e-20
    assert "params[1]*mass*speed" in result["law"]
