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
def test_init_creates_task_with_readme(system, shell, tmp_path):
    folder = tmp_path / "deep" / "task"
    shell("init", system, str(folder))
    assert (folder / "README.md").is_file()
    plan = config.load(folder)
    assert plan.system == (system if system in SYSTEMS else "llmsr")
    assert not list(folder.rglob("__pycache__"))


def test_init_accepts_every_example(shell, tmp_path):
    names = list(init.iter_tasks(init.get_examples_dir()))
    assert {config.get_system(system).template for system in SYSTEMS} <= set(names)
    for name in names:
        data = shell("init", name, str(tmp_path / name), "--json").json()
        assert data["example"] == name
        assert all((tmp_path / name / file).is_file() for file in data["files"])


def test_init_prints_next_commands(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = shell("init", "llmsr", "my task").lines
    assert len(lines) == 3
    assert lines[1].endswith(" run 'my task'")
    assert " run 'my task' --llm openai:MODEL" in lines[2]


def test_init_uses_empty_folder(shell, tmp_path):
    shell("init", "programs", str(tmp_path))
    assert (tmp_path / "evaluator.py").is_file()


def test_init_rejects_nonempty_folder(shell, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    assert "is not empty. Choose a new folder." in shell.fail("init", "llmsr", str(tmp_path))
    assert "is a file. Choose a new folder." in shell.fail("init", "llmsr", str(tmp_path / "mine.txt"))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_init_reports_folder_that_cannot_be_created(shell, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    assert "cannot be created: Not a directory." in shell.fail("init", "llmsr", str(tmp_path / "mine.txt" / "task"))


def test_init_lists_names_for_unknown_name(shell, tmp_path):
    message = shell.fail("init", "alchemy", str(tmp_path / "task"))
    assert message.startswith(
        "System or example 'alchemy' not found. Systems: llmsr, mind, programs, survival. Examples: "
    )
    assert "kinetic_energy" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../kernel", ".", "", "kernel"])
def test_init_accepts_only_tasks(name, shell, tmp_path):
    assert "not found. Systems: llmsr" in shell.fail("init", name, str(tmp_path / "task"))
