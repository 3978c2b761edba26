"""Runs of a mind task folder from the command line."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from atoll import cli, store

NOISY = """
from atoll.mind import trace_mutator
from atoll.mind.tasks import trip
from random import Random

def reply(prompt: str) -> str:
    problem = trip.from_text("t", prompt.partition("# Task\\n")[2].partition("\\n\\n# Form")[0])
    made = problem.format_plan(trace_mutator.random_trace(problem.moves, Random(prompt)))
    return f"<critic>\\n- too late\\n</critic>\\n<plan>\\n{made}\\n</plan>"
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "atoll.toml").write_text('system = "mind"\n[task]\nnumber = 2\nsize = 5\n[mind]\nnum_gens = 3\n')
    (folder / "model.py").write_text(NOISY)
    monkeypatch.chdir(tmp_path)
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert cli.main([*arguments, "--json", "--quiet"]) == 0
    return json.loads(capsys.readouterr().out)


def run_verb(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert cli.main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def test_run_reports_solved_and_usage(task, capsys):
    result = run(capsys, "run", str(task))
    assert result["solved"] <= result["total"] == 2
    assert result["evaluations"] > 0
    assert (result["calls"], result["tokens"]) == (0, 0)


def test_best_plan_of_each_problem_is_printed(task, capsys):
    rows = run(capsys, "run", str(task))["instances"]
    for row in rows:
        assert run_verb(capsys, "show", "latest", row["candidate"], "--json")["content"].startswith(f"{row['id']}\n")
    assert cli.main(["best", "latest"]) == 0
    printed = capsys.readouterr().out
    assert all(f"{row['id']}\n" in printed for row in rows)
    assert [candidate["id"] for candidate in run_verb(capsys, "best", "latest", "--json")["instances"]] == [
        row["candidate"] for row in rows
    ]
    assert run_verb(capsys, "show", "latest", "--json")["result"]["instances"] == rows
    assert cli.main(["show", "latest"]) == 0
    assert f"| {rows[1]['id']} |" in capsys.readouterr().out


def test_run_of_several_problems_ends_with_show_command(task, capsys):
    assert cli.main(["run", str(task)]) == 0
    printed = capsys.readouterr().out
    assert "**Day 1" not in printed
    match = re.search(r"show (\S+) (\d+\.\d+)$", printed, re.MULTILINE)
    assert match is not None
    assert run_verb(capsys, "show", match[1], match[2], "--json")["content"]


def test_progress_lines_have_problem_and_score(task, capsys):
    assert cli.main(["run", str(task), "--json"]) == 0
    output = capsys.readouterr()
    lines = [line for line in output.err.splitlines() if "  best " in line and " iteration " in line]
    assert lines[0].endswith("no plan yet")
    for row in json.loads(output.out)["instances"]:
        assert [line for line in lines if f"  {row['id']}: score {row['score']:g}; " in line]
    assert not [line for line in lines if line.endswith("W0")]


@pytest.mark.parametrize("method", ["one_pass", "best_of_n", "sequential", "mind"])
def test_method_can_be_set_without_section(task, capsys, method):
    result = run(capsys, "run", str(task), "--set", f"method={method}", "--set", "mind.num_plans=12")
    assert result["method"] == method


def test_unknown_key_without_section_is_rejected(task, capsys):
    assert cli.main(["run", str(task), "--set", "methd=mind"]) == 2
    assert "Unknown key methd" in capsys.readouterr().err


def test_llm_conversations_are_printed_as_tree(task, capsys):  # A18
    model = f"python:{task / 'model.py'}:reply"
    result = run(capsys, "run", str(task), "--llm", model, "--set", "mind.num_convs=1", "--set", "mind.num_islands=2")
    assert result["calls"] > 0
    assert result["tokens"] > 0
    assert cli.main(["tree", "latest", "--json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    island = tree["nodes"][0]
    turn = island["nodes"][0]["nodes"][0]["nodes"][0]
    assert island["title"] == "island 0"
    assert island["nodes"][0]["title"] == "generation 1"
    assert turn["id"] == "1.0"
    assert turn["judge"]
    assert cli.main(["tree", "latest", "--level", "turns", "--island", "0"]) == 0
    assert "critic: - too late" in capsys.readouterr().out
    assert cli.main(["tree", "latest", "--level", "leaves"]) == 2


def test_resumed_run_ends_like_uninterrupted_run(task, capsys):
    full_run = run(capsys, "run", str(task), "--deterministic", "--iterations", "60", "--store", "whole.db")
    run(capsys, "run", str(task), "--deterministic", "--iterations", "20", "--store", "cut.db")
    resumed_run = run(capsys, "resume", "latest", "--iterations", "40", "--store", "cut.db")
    assert resumed_run["instances"] == full_run["instances"]


def test_deterministic_run_limits_window_to_problems(task, capsys):  # 1.6
    assert cli.main(["run", str(task), "--deterministic", "--iterations", "4"]) == 0
    assert "by iteration, 2 in flight" in capsys.readouterr().err


@pytest.mark.parametrize("llm", ["none", "python:task/model.py:reply"])
def test_larger_window_makes_no_more_plans(task, capsys, llm):
    result = run(capsys, "run", str(task), "--llm", llm, "--set", "method=one_pass", "--set", "run.window=9")
    assert result["evaluations_per_problem"] == 1


def test_island_budget_limits_llm_calls(task, capsys):  # A16
    model = f"python:{task / 'model.py'}:reply"
    result = run(
        capsys, "run", str(task), "--llm", model, "--set", "run.island_budget=3calls", "--set", "num_islands=2"
    )
    with store.Store("atoll.db") as run_store:
        calls = Counter(record.island for record in run_store.journal(result["run"]).read_kinds("replied"))
    assert calls
    assert max(calls.values()) <= 3
    assert result["reason"]


def test_settings_that_need_llms_are_rejected_without(task, capsys):
    assert cli.main(["run", str(task), "--set", "mind.second_llm=x"]) == 2
    assert "Pass several with commas" in capsys.readouterr().err
    assert cli.main(["run", str(task), "--set", "mind.second_gen=2"]) == 2
    assert cli.main(["run", str(task), "--set", "task.data=nothing.jsonl"]) == 2
    assert "File nothing.jsonl not found" in capsys.readouterr().err
