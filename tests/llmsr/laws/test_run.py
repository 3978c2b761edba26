"""Law search from the command line, for a folder of CSV files."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atoll import cli, store, testing


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
    output = capsys.readouterr()
    return json.loads(output.out.splitlines()[-1]) if output.out else {}, output.err


def test_run_and_report_show_law_size_errors_and_front(capsys):
    result, _ = run(capsys, "run", "task", "--iterations", "30")
    assert result["status"] == "done"
    assert result["nmse"]["train"] < 1e-20
    assert result["nmse"]["test_ood"] < 1e-20
    assert "test_id" not in result["nmse"]
    assert "mass" in result["law"]
    assert result["size"] == next(row["size"] for row in result["front"] if row["law"] == result["law"])
    assert cli.main(["report", "latest"]) == 0
    page = capsys.readouterr().out
    assert "## Result" in page
    laws = [
        re.sub(r"\d+\.\d{7,}(?:e[+-]?\d+)?", lambda match: f"{float(match[0]):.6g}", row["law"])
        for row in result["front"]
    ]
    assert all(law in page for law in laws)  # a table has six digits of a number
    assert cli.main(["best", "latest"]) == 0
    assert capsys.readouterr().out == f"{result['law']}\n"


def test_resumed_run_equals_uninterrupted_run(capsys):
    expected, _ = run(capsys, "run", "task", "--iterations", "12", "--store", "expected.db")
    first, _ = run(capsys, "run", "task", "--iterations", "6", "--store", "parts.db")
    second, _ = run(capsys, "resume", "latest", "--iterations", "6", "--store", "parts.db")
    assert first["steps"] == 6
    assert (second["law"], second["front"]) == (expected["law"], expected["front"])
    assert second["status"] == "done"


def test_reset_period_is_obeyed(capsys):
    _, message = run(capsys, "run", "task", "-i", "2", "--deterministic", "--set", "llmsr.reset_period=60.0", status=2)
    assert "cannot depend on seconds" in message
    result, _ = run(capsys, "run", "task", "-i", "12", "--set", "llmsr.reset_evaluations=5")
    with store.Store("atoll.db") as run_store:
        assert list(run_store.journal(result["run"]).read_kinds("reset"))


def test_test_file_is_opened_after_search(data, capsys):
    (data / "test_ood.csv").write_text("mass,speed,force\n1,2,much\n")
    _, message = run(capsys, "run", "task", "--iterations", "2", status=2)
    assert "force is 'much', not a number" in message
    assert cli.main(["best", "latest"]) == 0


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("a,y\n", "has no rows"),
        ("1,2\n3,4\n", "has no header"),
        ("y\n1\n2\n", "has one column, y"),
        ("a;y\n1,5;2\n", "are separated by semicolons. Use commas, and decimal points."),
        ("a\ty\n1\t2\n", "are separated by tabs. Use commas"),
        ("a,y\n1,2\n1,x\n", "line 3: y is 'x', not a number. Correct it, or remove the column."),
        ("a,y\n1,2\n1,\n", "line 3: y is '', not a number. Correct it, or remove the row."),
        ("a,y\n1,2\n1\n", "line 3 has 1 cell, but the header has 2"),
        ("a,y\n" + "1,2\nnan,3\n" * 8, "a is nan in row 2"),
        ("a,y\n" + "1,2\n1,3\n" * 8, "a is 1.0 in every row. Remove the column."),
        ("a,y\n" + "1,2\n2,2\n" * 8, "the target is 2.0 in every row. Choose another target."),
        ("a,y\n1,2\n2,3\n", "has 2 rows, fewer than a law has constants"),
        ("a,y\n1,2\n", "has 1 row, fewer"),
        ("a,y\n1,\x00\n", "train.csv"),
    ],
)
def test_unusable_data_file_is_rejected(content, expected, data, capsys):
    (data / "train.csv").write_text(content)
    _, message = run(capsys, "run", "task", "--iterations", "2", status=2)
    assert expected in message
    assert "Traceback" not in message


def test_folder_without_training_data_is_rejected(capsys):
    _, message = run(capsys, "run", "task", "--set", "task.data=nowhere", "--iterations", "2", status=2)
    assert "is not a folder. Set task.data to a folder with train.csv" in message


def test_llm_equations_get_fitted_constants(capsys):
    prompts = []

    def answer(prompt: str, number: int) -> str:
        prompts.append(prompt)
        return (
            "```python\ndef equation_v2(mass, speed, params):\n    return params[0]*mass**2 + params[1]*mass*speed\n```"
        )

    with testing.ModelServer(answer) as server:
        arguments = ["run", "task", "--llm", f"openai:tiny@{server.url}", "--iterations", "2"]
        comment = ["--set", "task.comment=Force on a moving mass."]
        result, _ = run(capsys, *arguments, "--set", "llmsr.preset=llmsr", *comment)
    assert all("Force on a moving mass." in prompt for prompt in prompts)
    assert result["nmse"]["train"] < 1e-20
    assert result["nmse"]["test_ood"] < 1e-20
    assert "params[1]*mass*speed" in result["law"]


def test_llm_and_search_work_together(capsys):
    prompts = []

    def answer(prompt: str, number: int) -> str:
        prompts.append(prompt)
        if number == 1:
            return "1. law: params[0]*mass**2  # energy\n2. law: unknown(mass)\n- law: force = params[0]*mass/speed"
        return "law: params[0]*mass**2 + params[1]*mass*speed"

    with testing.ModelServer(answer) as server:
        arguments = ["run", "task", "--llm", f"openai:tiny@{server.url}", "--budget", "3calls"]
        result, message = run(capsys, *arguments, "--set", "task.comment=Force on a moving mass.")
    assert result["nmse"]["test_ood"] < 1e-20
    assert result["law"] == "2*mass**2 - 0.7*mass*speed"
    assert len(prompts) == 3
    assert "Force on a moving mass." in prompts[0]
    assert "| speed |" in prompts[0]
    assert "The best laws so far" in prompts[2]
    assert "law: params[0]*mass" in prompts[2]  # as an answer is written
    assert "llm" in message
    assert result["iterations"] >= 11  # five per call: the search goes on while the LLM thinks


def test_formulas_of_an_llm_are_not_varied_as_sums_of_products(capsys):
    with testing.ModelServer(lambda prompt, number: f"law: params[0]*np.sin(params[1]*mass + {number})") as server:
        arguments = ["run", "task", "--llm", f"openai:tiny@{server.url}", "--budget", "4calls", "--workers", "1"]
        result, _ = run(capsys, *arguments)
    cli.main(["export", result["run"], "--format", "jsonl"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    formulas = {row["id"] for row in rows if row["meta"].get("engine") == "llm"}
    assert formulas
    assert not [row["id"] for row in rows if formulas & set(row["parents"])]
