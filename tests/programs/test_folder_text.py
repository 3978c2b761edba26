"""Folders as programs (P12): the files evolve as one text, and the evaluator receives a folder."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import cli, testing
from atoll.programs.evaluation import evaluator_job, folder_text

NAMES = st.from_regex(r"[a-z]{1,5}(/[a-z]{1,5}\.py)?", fullmatch=True)
EVALUATOR = """
import pathlib, sys
def evaluate(folder):
    sys.path.insert(0, folder)
    import main
    return float(main.total())
"""


@given(
    st.dictionaries(NAMES, st.text(st.characters(codec="utf-8", exclude_characters="\r=\n")).map(lambda t: t + "\n"))
)
def test_split_files_reverses_join(files):
    text = "".join(f"=== FILE {path} ===\n{body}" for path, body in files.items())
    if files:
        assert folder_text.split_files(text) == files


@pytest.mark.parametrize(
    "text",
    ["", "x = 1\n", "=== FILE /etc/x ===\n", "=== FILE ../x ===\n", "=== FILE a/../../x ===\n", "=== FILE . ===\n"],
)
def test_split_files_rejects_paths_outside_the_folder_and_duplicates(text):
    with pytest.raises(ValueError, match="path"):
        folder_text.split_files(text)
    with pytest.raises(ValueError, match="file 'a' is repeated"):
        folder_text.split_files("=== FILE a ===\n=== FILE a ===\n")


def test_join_files_skips_hidden_files_and_rejects_binary_files(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    for name in (".hidden", "__pycache__/x.pyc", "b.py", "a.py"):
        (tmp_path / name).write_text("1")
    assert folder_text.join_files(str(tmp_path)) == "=== FILE a.py ===\n1\n=== FILE b.py ===\n1\n"
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"c\.bin is not text"):
        folder_text.join_files(str(tmp_path))


def make_task(folder):
    program = folder / "task" / "initial_program"
    (program / "parts").mkdir(parents=True)
    (program / "main.py").write_text("from parts.one import ONE\ndef total():\n    return ONE + 1\n")
    (program / "parts" / "one.py").write_text("ONE = 1\n")
    (folder / "task" / "evaluator.py").write_text(EVALUATOR)
    return folder / "task"


def test_evaluator_receives_a_folder(tmp_path, monkeypatch):
    task = make_task(tmp_path)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    job = evaluator_job.FunctionJob(str(task / "evaluator.py"), folder_text.FOLDER)
    result = job({"call": "evaluate", "program": folder_text.join_files(str(task / "initial_program"))})
    assert result["metrics"] == {"combined_score": 2.0}


@pytest.mark.parametrize("words", [["task"], ["task/initial_program", "task/evaluator.py"]])
def test_llm_changes_one_of_several_files(capsys, tmp_path, monkeypatch, words):
    make_task(tmp_path)
    monkeypatch.chdir(tmp_path)
    reply = "<<<<<<< SEARCH\nONE = 1\n=======\nONE = {}\n>>>>>>> REPLACE"
    with testing.ModelServer(lambda prompt, number: reply.format(5 + number)) as server:
        command = ["run", *words, "--llm", f"openai:m@{server.url}", "--iterations", "2", "--json"]
        assert cli.main([*command, "--set", "programs.crossover=0"]) == 0
        assert "=== FILE parts/one.py ===" in str(server.requests[0])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["initial_score"] == 2.0
    assert result["best_score"] >= 6.0


def test_folder_program_without_llm_is_rejected(capsys, tmp_path, monkeypatch):
    make_task(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "task", "--iterations", "1"]) == 2
    assert "pass an LLM with --llm" in capsys.readouterr().err
