"""A repository that is mended by a run: without a model, and with one that is scripted."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from atoll import cli, errors, executor, sandbox, store, system, testing
from atoll.mind import build as mind
from atoll.mind.config import Options, Task
from atoll.mind.workspace import build
from tests.mind.workspace import repositories

REPLY = """<critic>
- add subtracts
</critic>
<plan>
FILE: sums.py
<<<<<<< SEARCH
    return a - b
=======
    return a + b
>>>>>>> REPLACE
</plan>
"""
LIMITS = sandbox.Limits(seconds=20.0)


def parts(folder: Path, model=None) -> system.BuildContext:
    place = executor.ExecutorConfig(LIMITS, is_unsafe=True)
    return system.BuildContext(folder, model, place, 1, 0, store.MemoryBlobs())


def task_folder(tmp_path: Path) -> Path:
    task = 'system = "mind"\n[task]\nproblem = "workspace"\nrepository = "project"\n'
    (tmp_path / "atoll.toml").write_text(f"{task}[mind]\nnum_islands = 1\nnum_gens = 20\n")
    return tmp_path


def run(folder: Path, capsys, *more: str):
    assert cli.main(["run", str(folder), "--json", "--workers", "1", *more]) == 0
    return json.loads(capsys.readouterr().out)


def run_verb(capsys, *arguments: str):
    assert cli.main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def test_a_run_without_a_model_mends_a_repository_and_touches_nothing_of_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = repositories.made(task_folder(tmp_path) / "project")
    before = repositories.look(folder)
    found = run(tmp_path, capsys)
    assert found["solved"] == 1
    assert repositories.look(folder) == before
    assert repositories.leftovers(folder) == []
    (kept,) = repositories.git(folder, "for-each-ref", "--format=%(refname)", "refs/atoll").split()
    assert "+    return a + b" in repositories.git(folder, "diff", f"HEAD...{kept}")


def test_a_run_names_the_reference_of_its_best_worldline_and_how_to_look_at_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = repositories.made(task_folder(tmp_path) / "project")
    found = run(tmp_path, capsys)
    (kept,) = repositories.git(folder, "for-each-ref", "--format=%(refname)", "refs/atoll").split()
    assert found["ref"] == kept
    shown = subprocess.run(shlex.split(found["look"]), capture_output=True, text=True, check=True).stdout
    assert "+    return a + b" in shown
    assert run_verb(capsys, "show", "latest", "--json")["result"]["look"] == found["look"]
    assert cli.main(["show", "latest"]) == 0
    assert f"ref: {kept}" in capsys.readouterr().out
    assert run_verb(capsys, "resume", "latest", "--json")["ref"] == kept  # nothing was judged again


def test_the_best_plan_is_kept_in_place_of_another_that_was_judged_as_good(tmp_path):
    folder = repositories.made(tmp_path / "project")
    about = build.load_problem_set(
        Task(problem="workspace", repository="project"), Options(), parts(tmp_path, object())
    )
    (problem,) = about.problems
    first, second = (problem.parse_plan(REPLY.replace("a + b", text)) or "" for text in ("a + b", "b + a"))
    assert problem.evaluate(first).score == problem.evaluate(second).score == 0
    ref = about.save_best({problem.id: second})["ref"]
    about.close()
    assert repositories.git(folder, "for-each-ref", "--format=%(refname)", "refs/atoll").split() == [ref]
    assert "+    return b + a" in repositories.git(folder, "diff", f"HEAD...{ref}")


def test_a_repository_is_looked_for_in_the_task_folder_and_then_here(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    repositories.made(tmp_path / "project")
    (tmp_path / "task").mkdir()
    task_folder(tmp_path / "task")
    found = run(tmp_path / "task", capsys)
    assert found["ref"] in repositories.git(tmp_path / "project", "for-each-ref", "refs/atoll")
    assert cli.main(["run", "task", "--set", "task.repository=nowhere"]) == 2
    assert "there is no folder nowhere in " in capsys.readouterr().err


def test_a_plain_folder_is_mended_in_a_copy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = task_folder(tmp_path) / "project"
    (folder / "tests").mkdir(parents=True)
    for name, text in {"sums.py": repositories.BROKEN, "tests/test_sums.py": repositories.TESTS}.items():
        (folder / name).write_text(text)
    (folder / "tests/__init__.py").touch()
    assert run(tmp_path, capsys)["solved"] == 1
    assert (folder / "sums.py").read_text() == repositories.BROKEN
    assert not (folder / ".git").exists()


def test_a_model_is_told_what_fails_and_its_edits_are_tried(tmp_path):
    folder = repositories.made(tmp_path / "project")
    about = build.load_problem_set(
        Task(problem="workspace", repository="project"), Options(), parts(tmp_path, object())
    )
    (problem,) = about.problems
    assert "-1 != 5" in problem.text
    assert "FILE: sums.py" in problem.text
    plan = problem.parse_plan(REPLY)
    assert plan is not None
    verdict = problem.evaluate(plan)
    assert verdict.is_solved
    assert "git diff HEAD...refs/atoll/" in verdict.format_feedback()
    wrong = problem.evaluate(problem.parse_plan(REPLY.replace("a + b", "a * b")) or "")
    assert (wrong.score, wrong.progress, wrong.is_solved) == (-1.0, 0.5, False)
    assert "6 != 5" in wrong.format_feedback()
    refused = problem.evaluate("FILE: tests/test_sums.py\n<<<<<<< SEARCH\n=======\npass\n>>>>>>> REPLACE")
    assert "task.protected" in refused.format_feedback()
    regressing = problem.evaluate(
        problem.parse_plan(REPLY.replace("return a - b", "return 2 * a").replace("a + b", "1")) or ""
    )
    assert regressing.contradiction == 1.0
    about.close()
    assert repositories.leftovers(folder) == []


def test_a_conversation_with_a_scripted_model_mends_it(tmp_path):
    repositories.made(tmp_path / "project")
    asked = list[str]()

    def script(step: int, call: str, prompt: str) -> str:
        asked.append(prompt)
        return REPLY.replace("a + b", "a * b") if len(asked) == 1 else REPLY

    built = mind.build(
        Task(problem="workspace", repository="project"),
        Options(num_islands=1, num_gens=2, num_convs=1),
        parts(tmp_path, testing.ScriptedLLM(script)),
    )
    evolver = system.SystemEvolver(built.config, built.report, built.close)
    evolver.run()
    assert built.summarize_result is not None
    assert built.summarize_result(evolver)["solved"] == 1
    assert any("6 != 5" in prompt for prompt in asked)


def test_tests_that_never_end_fail_by_themselves(tmp_path):
    repositories.made(tmp_path / "project")
    about = build.load_problem_set(
        Task(problem="workspace", repository="project"), Options(), parts(tmp_path, object())
    )
    (problem,) = about.problems
    loop = problem.parse_plan(REPLY.replace("    return a + b", "    while True: pass"))
    verdict = problem.evaluate(loop or "")
    assert verdict.progress == 0.5
    assert "it took longer than" in verdict.format_feedback()
    about.close()


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (Task(problem="workspace"), "name the repository"),
        (Task(problem="workspace", repository="nowhere"), "nothing to mend"),
        (Task(problem="workspace", repository="project", tests="docs"), "no test was found|cannot be run"),
        (Task(problem="workspace", repository="project", commands=("no-such",)), "no such program"),
    ],
)
def test_a_set_up_that_cannot_work_is_one_sentence(tmp_path, task, why):
    folder = repositories.made(tmp_path / "project")
    with pytest.raises(errors.SetupError, match=why):
        build.load_problem_set(task, Options(), parts(tmp_path))
    assert repositories.leftovers(folder) == []
