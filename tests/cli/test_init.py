"""`atoll init`: a folder that runs as it is."""

import io
import os
import runpy
import shlex
import sys

import pytest

from atoll import config
from atoll.cli.run import start
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
    names = list(start.iter_tasks(start.get_examples_dir()))
    for name in names:
        data = shell("init", name, str(tmp_path / name), "--json").json()
        assert data["example"] == name
        assert all((tmp_path / name / file).is_file() for file in data["files"])


def test_init_prints_next_commands(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = shell("init", "llmsr", "my task").lines
    assert len(lines) == 4
    assert lines[1].endswith(" check 'my task'")
    assert lines[2].endswith(" run 'my task'")
    assert " run 'my task' --llm openai:MODEL" in lines[3]


def test_init_has_a_template_for_everything_that_evolves(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in start.KINDS:
        shell("init", kind, kind)
        readme = (tmp_path / kind / "README.md").read_text()
        assert "examples/" not in readme or kind == "plan"
    assert "target =" not in (tmp_path / "function" / "atoll.toml").read_text().replace("# target =", "")
    for kind in ("function", "program"):
        assert shell("check", kind, "--repeats", "2", "--json").json()["ok"]
    namespace = runpy.run_path(str(tmp_path / "agent" / "agent.py"))
    namespace["main"]()
    assert config.load(tmp_path / "function").run.target is None


def test_init_takes_own_table(shell, tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n2,4\n3,6\n")
    folder = tmp_path / "law"
    shell("init", "table", str(folder), "--from", str(tmp_path / "mine.csv"))
    assert (folder / "train.csv").read_text().startswith("a,b")
    assert not (folder / "test_id.csv").exists()
    assert "does not work with function" in shell.fail("init", "function", "x", "--from", "mine.csv")
    assert "cannot be read" in shell.fail("init", "table", "x", "--from", "no.csv")
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert "has no rows" in shell.fail("init", "table", "x", "--from", str(tmp_path / "empty.csv"))


def test_init_names_the_python_of_scripts(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    assert shell("init", "agent", "one").lines[1].endswith(" python one/agent.py")
    monkeypatch.setenv("PATH", str(tmp_path))
    python = shlex.quote(sys.executable)
    assert f" {python} two/agent.py" in shell("init", "agent", "two").lines[1]
    assert f"    {python} two/agent.py" in (tmp_path / "two" / "README.md").read_text()


def test_agent_uses_an_approved_proposal(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shell = apps.Shell(capsys, "agent.db")
    shell("init", "agent", "own")
    start_agent = runpy.run_path("own/agent.py")["main"]
    start_agent()
    options = ("--title", "Be friendly", "--author", "agent", "--json")
    proposal = shell("proposals", "submit", "optimize", "own/proposal.json", *options).json()
    content_hash = shell("proposals", "show", proposal["id"], "--json").json()["content_hash"]
    review = ("--reason", "reads well", "--author", "bea", "--hash", content_hash)
    shell("proposals", "approve", proposal["id"], *review)
    capsys.readouterr()
    start_agent("Why?")
    assert capsys.readouterr().out == "version 2: [Be friendly. Name the next step.] Why?\n"
    shell("params", "rollback", "agent/prompt", "1", "--reason", "complaints", "--author", "bea")
    start_agent("Why?")
    assert capsys.readouterr().out == "version 3: [Be brief.] Why?\n"


def test_init_asks_in_a_terminal(shell, tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal(f"2\n{tmp_path / 'mine'}\n"))
    assert "What do you have?" in shell("init").err
    assert (tmp_path / "mine" / "evaluator.py").is_file()
    monkeypatch.setattr("sys.stdin", Terminal("9\n"))
    assert "is not a number from 1 to 6" in shell("init", status=2).err
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert "Name what you have" in shell.fail("init")
    assert "Name the folder" in shell.fail("init", "function")


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
        "Kind or example 'alchemy' not found. Kinds: llmsr, mind, programs, survival, function, program, prompt, "
    )
    assert "kinetic_energy" in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["../kernel", ".", "", "kernel"])
def test_init_accepts_only_tasks(name, shell, tmp_path):
    assert "not found. Kinds: llmsr" in shell.fail("init", name, str(tmp_path / "task"))
