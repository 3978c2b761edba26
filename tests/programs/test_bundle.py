"""A folder as a program (P12): its files are one text that evolves, and the evaluator is given a folder."""

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
def test_what_is_joined_is_split_again(files):
    text = "".join(f"=== FILE {path} ===\n{body}" for path, body in files.items())
    if files:
        assert folder_text.split_files(text) == files


@pytest.mark.parametrize(
    "text",
    ["", "x = 1\n", "=== FILE /etc/x ===\n", "=== FILE ../x ===\n", "=== FILE a/../../x ===\n", "=== FILE . ===\n"],
)
def test_what_names_no_file_in_its_folder_is_refused(text):
    with pytest.raises(ValueError, match="path"):
        folder_text.split_files(text)
    with pytest.raises(ValueError, match="file 'a' is repeated"):
        folder_text.split_files("=== FILE a ===\n=== FILE a ===\n")


def test_hidden_files_and_caches_are_no_part_of_it_and_no_text_is_refused(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    for name in (".hidden", "__pycache__/x.pyc", "b.py", "a.py"):
        (tmp_path / name).write_text("1")
    assert folder_text.join_files(str(tmp_path)) == "=== FILE a.py ===\n1\n=== FILE b.py ===\n1\n"
    (tmp_path / "c.bin").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"c\.bin is not text"):
        folder_text.join_files(str(tmp_path))


def make(folder):
    program = folder / "task" / "initial_program"
    (program / "parts").mkdir(parents=True)
    (program / "main.py").write_text("from parts.one import ONE\ndef total():\n    return ONE + 1\n")
    (program / "parts" / "one.py").write_text("ONE = 1\n")
    (folder / "task" / "evaluator.py").write_text(EVALUATOR)
    return folder / "task"


def test_the_evaluator_gets_a_folder(tmp_path, monkeypatch):
    task = make(tmp_path)
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    job = evaluator_job.FunctionJob(str(task / "evaluator.py"), folder_text.FOLDER)
    found = job({"call": "evaluate", "program": folder_text.join_files(str(task / "initial_program"))})
    assert found["metrics"] == {"combined_score": 2.0}


@pytest.mark.parametrize("words", [["task"], ["task/initial_program", "task/evaluator.py"]])
def test_a_model_changes_one_of_several_files(capsys, tmp_path, monkeypatch, words):
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    reply = "<<<<<<< SEARCH\nONE = 1\n=======\nONE = {}\n>>>>>>> REPLACE"
    with testing.ModelServer(lambda prompt, number: reply.format(5 + number)) as server:
        command = ["run", *words, "--llm", f"openai:m@{server.url}", "--iterations", "2", "--json"]
        assert cli.main([*command, "--set", "programs.crossover=0"]) == 0
        assert "=== FILE parts/one.py ===" in str(server.requests[0])
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["initial_score"] == 2.0
    assert result["best_score"] >= 6.0


def test_without_a_model_it_says_that_one_is_needed(capsys, tmp_path, monkeypatch):
    make(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "task", "--iterations", "1"]) == 2
    assert "pass an LLM with --llm" in capsys.readouterr().err
