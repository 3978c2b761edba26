"""Commands `mailbox`, `help` and `completion`."""

import io
import subprocess
import threading

import pytest

from atoll import cli
from tests.cli import apps

TASK = "x = 1\n"
EVALUATOR = "def evaluate(path):\n    return float(open(path).read().split('=')[1])\n"


@pytest.fixture
def shell(capsys, tmp_path):
    return apps.Shell(capsys, str(tmp_path / "a.db"))


@pytest.mark.process
def test_mailbox_lists_shows_and_answers_prompts(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "initial_program.py").write_text(TASK)
    (tmp_path / "evaluator.py").write_text(EVALUATOR)
    arguments = ["run", ".", "--llm", "mailbox:box", "-i", "1", "--workers", "1", "-q", "--store", "a.db"]
    run = threading.Thread(target=cli.main, args=[[*arguments, "--set", "programs.num_islands=1", "--unsafe"]])
    monkeypatch.setattr("signal.signal", lambda *arguments: None)  # only a main thread may set one
    run.start()
    while not list(tmp_path.glob("box/*.prompt.md")):
        run.join(0.1)
        assert run.is_alive()
    (name,) = shell("mailbox", "box", "--json").json()["waiting"]
    assert name in shell("mailbox", "box").out
    assert "x = 1" in shell("mailbox", "box", "next").out
    monkeypatch.setattr("sys.stdin", io.StringIO("IDEA: more\n```python\nx = 7\n```\n"))
    data = shell("mailbox", "box", "next", "--reply", "-", "--json").json()
    assert data["candidates"][0]["score"] == 7.0  # the tuner may add a better one
    assert sum(row["is_best"] for row in data["candidates"]) == 1
    run.join(30)
    assert "0 waiting, 1 answered." in shell("mailbox", "box").out
    assert "No prompt is waiting." in shell.fail("mailbox", "box", "next")
    assert "has an answer already" in shell.fail("mailbox", "box", name, "--reply", "initial_program.py")


@pytest.mark.process
def test_mailbox_says_why_an_answer_has_no_candidate(shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "initial_program.py").write_text(TASK)
    (tmp_path / "evaluator.py").write_text(EVALUATOR)
    (tmp_path / "answer").write_text("I do not know.")
    arguments = ["run", ".", "--llm", "mailbox:box", "--budget", "2calls", "--workers", "1", "-q", "--store", "a.db"]
    run = threading.Thread(target=cli.main, args=[[*arguments, "--unsafe"]])
    monkeypatch.setattr("signal.signal", lambda *arguments: None)  # only a main thread may set one
    run.start()
    notes = []
    for _ in range(2):
        while not shell("mailbox", "box", "--json").json()["waiting"] if (tmp_path / "box").is_dir() else True:
            run.join(0.1)
            assert run.is_alive()
        notes.append(shell("mailbox", "box", "next", "--reply", "answer").out)
    run.join(30)
    assert "The response was not usable. The next prompt says why: atoll mailbox box next" in notes[0]
    assert "It brought no candidate: " in notes[1]
    assert "0 waiting, 2 answered." in shell("mailbox", "box").out


def test_mailbox_without_a_run_in_the_store_says_so(shell, tmp_path):
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "000001-0-abc.prompt.md").write_text("hello")
    (tmp_path / "answer").write_text("my answer")
    output = shell("mailbox", str(tmp_path / "box"), "next", "--reply", str(tmp_path / "answer"))
    assert "has no run with this mailbox, so the score is not shown here." in output.out


def test_mailbox_ignores_links_to_nothing(shell, tmp_path):
    (tmp_path / "a.prompt.md").write_text("prompt")
    (tmp_path / "b.prompt.md").symlink_to(tmp_path / "nothing")
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "a.reply.part").symlink_to(victim)
    answer = tmp_path / "answer"
    answer.write_text("my answer")
    shell("mailbox", str(tmp_path), "next", "--reply", str(answer), "--wait", "0")
    assert victim.read_text() == "precious"
    assert (tmp_path / "a.reply.md").read_text() == "my answer"


def test_mailbox_errors_are_one_sentence(shell, tmp_path):
    assert "not found" in shell.fail("mailbox", str(tmp_path / "no"))
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "000001-0-abc.prompt.md").write_text("hello")
    (tmp_path / "empty").write_text(" ")
    assert "No prompts match" in shell.fail("mailbox", str(tmp_path / "box"), "zzz")
    assert "is empty" in shell.fail("mailbox", str(tmp_path / "box"), "next", "--reply", str(tmp_path / "empty"))
    assert "cannot be read" in shell.fail("mailbox", str(tmp_path / "box"), "next", "--reply", str(tmp_path / "none"))


def test_help_of_a_command_and_of_a_group(shell):
    assert "Usage: atoll run" in shell("help", "run").out
    assert "Usage: atoll params set" in shell("help", "params", "set").out
    root = shell("help").out
    assert all(f"\n{title}:" in root for title in cli.SECTIONS)
    assert "…" not in root
    assert "..." not in root.partition("Start:")[2].replace("table, ...", "")


def test_every_command_is_in_one_section():
    names = [name for names in cli.SECTIONS.values() for name in names]
    assert sorted(names) == sorted([*cli.COMMANDS, *cli.GROUPS])


@pytest.mark.process
def test_completion_scripts_are_valid(shell, tmp_path):
    script = tmp_path / "complete.bash"
    script.write_text(shell("completion", "bash").out)
    probe = f"source {script}; COMP_WORDS=(atoll params s); COMP_CWORD=2; _atoll; echo ${{COMPREPLY[@]}}"
    completed = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
    assert completed.stdout.split() == ["set", "settings", "suggest"]
    assert "bashcompinit" in shell("completion", "zsh").out
    assert "-a run " in shell("completion", "fish").out
    assert "is unknown" in shell.fail("completion", "tcsh")
