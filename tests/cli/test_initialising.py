"""`atoll init`: a folder that runs as it is."""

import pytest

from atoll import config
from atoll.cli.run import init
from tests.cli import apps

SYSTEMS = ["llmsr", "mind", "programs", "survival"]


@pytest.fixture
def shell(capsys):
    return apps.Shell(capsys)


@pytest.mark.parametrize("system", [*SYSTEMS, "funsearch_capset", "llmsr_oscillator"])
def test_the_folder_is_a_task_with_a_readme(system, shell, tmp_path):
    folder = tmp_path / "deep" / "task"
    shell("init", system, str(folder))
    assert (folder / "README.md").is_file()
    plan = config.load(folder)
    assert plan.system == (system if system in SYSTEMS else "llmsr")
    assert not list(folder.rglob("__pycache__"))


def test_every_task_among_the_examples_can_be_had_by_its_name(shell, tmp_path):
    names = list(init.iter_tasks(init.get_examples_dir()))
    assert {config.get_system(system).template for system in SYSTEMS} <= set(names)
    for name in names:
        data = shell("init", name, str(tmp_path / name), "--json").json()
        assert data["example"] == name
        assert all((tmp_path / name / each).is_file() for each in data["files"])


def test_it_ends_with_the_two_next_commands(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = shell("init", "llmsr", "my task").lines
    assert len(lines) == 3
    assert lines[1].endswith(" run 'my task'")
    assert " run 'my task' --llm openai:MODEL" in lines[2]


def test_an_empty_folder_is_taken(shell, tmp_path):
    shell("init", "programs", str(tmp_path))
    assert (tmp_path / "evaluator.py").is_file()


def test_a_folder_with_anything_in_it_is_left_alone(shell, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    assert "is not empty: choose a folder" in shell.refused("init", "llmsr", str(tmp_path))
    assert "is a file: choose a folder" in shell.refused("init", "llmsr", str(tmp_path / "mine.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_folder_that_cannot_be_made_is_told(shell, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    assert "cannot be made: Not a directory." in shell.refused("init", "llmsr", str(tmp_path / "mine.txt" / "task"))


def test_an_unknown_name_lists_what_there_is(shell, tmp_path):
    said = shell.refused("init", "alchemy", str(tmp_path / "task"))
    assert said.startswith(
        "There is no system or example 'alchemy': there are llmsr, mind, programs, survival, and the examples "
    )
    assert "kinetic_energy" in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../kernel", ".", "", "kernel"])
def test_only_tasks_are_given_out(name, shell, tmp_path):
    assert "There is no system or example" in shell.refused("init", name, str(tmp_path / "task"))
