"""Own problems: a class with a prompt, a parser and an evaluator, from the command line."""

import json
from pathlib import Path

import pytest

from atoll import cli, testing

PLANS = {
    "week_1": "Mon: Bob\nTue: Ann\nWed: Cleo\nThu: Ann\nFri: Dan\nSat: Cleo\nSun: Bob",
    "week_2": "Mon: Ann\nTue: Bob\nWed: Cleo\nThu: Dan\nFri: Bob\nSat: Dan\nSun: Ann",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["init", "mind", "my_plans"]) == 0
    capsys.readouterr()
    return tmp_path / "my_plans"


def change(folder: Path, before: str, after: str) -> None:
    text = (folder / "problem.py").read_text()
    assert before in text
    (folder / "problem.py").write_text(text.replace(before, after))


def test_template_is_solved_without_an_llm(folder, capsys):
    assert cli.main(["run", "my_plans", "--seed", "1", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["solved"], result["total"]) == (2, 2)


def test_llm_solves_own_problem_after_a_repair(folder, capsys):
    def reply(prompt, number):
        plan = PLANS["week_1"] if "Cleo is off on Fri." in prompt else PLANS["week_2"]
        return f"<plan>{plan}</plan>" if "It has no line such as Mon: Ann." in prompt else "<plan>nothing</plan>"

    with testing.ModelServer(reply) as server:
        assert cli.main(["run", "my_plans", "--llm", f"openai:test@{server.url}", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["solved"], result["total"]) == (2, 2)


def test_a_plan_below_a_heading_is_read(folder, capsys):
    def reply(prompt, number):
        assert "no readable plan" not in prompt
        return f"# Answer\n{PLANS['week_1'] if 'Cleo is off on Fri.' in prompt else PLANS['week_2']}"

    with testing.ModelServer(reply) as server:
        assert cli.main(["run", "my_plans", "--llm", f"openai:test@{server.url}", "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert (result["solved"], result["failures"]) == (2, 0)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (
            "        days, off = ",
            "        raise KeyError('most')\n        days, off = ",
            "evaluate of problem.py:Rota failed on",
        ),
        ('return -len(errors), "\\n".join(errors)', "return errors", "Return a score and a text of errors."),
        ("def evaluate", "def evaluat", "Write a class with the methods prompt, parse and evaluate."),
        ("import re", "import re, nothing_like_it", "problem.py of task.problem cannot be loaded"),
        ('self.moves = [f"{day}: {name}" for day in row["days"] for name in row["days_off"]]', "pass", "has no moves"),
        ("self.row = row", "self.row = row['week']", "cannot be made from line 1"),
    ],
)
def test_mistake_is_one_clear_error(folder, capsys, before, after, message):
    change(folder, before, after)
    assert cli.main(["run", "my_plans", "--seed", "1"]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert "Traceback" not in output


def test_unknown_problem_is_refused(folder, capsys):
    assert cli.main(["run", "my_plans", "--set", "task.problem=chess"]) == 2
    assert "task.problem" in capsys.readouterr().err
