"""Repository repair, without an LLM and with a scripted one."""

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


def make_context(folder: Path, model=None) -> system.BuildContext:
    executor_config = executor.ExecutorConfig(LIMITS, is_unsafe=True)
    return system.BuildContext(folder, model, executor_config, 1, 0, store.MemoryBlobs())


def task_folder(tmp_path: Path) -> Path:
    task = 'system = "mind"\n[task]\nproblem = "workspace"\nrepository = "project"\n'
    (tmp_path / "atoll.toml").write_text(f"{task}[mind]\nnum_islands = 1\nnum_gens = 20\n")
    return tmp_path


def run(folder: Path, capsys, *options: str):
    assert cli.main(["run", str(folder), "--json", "--workers", "1", *options]) == 0
    return json.loads(capsys.readouterr().out)


def run_verb(capsys, *arguments: str):
    assert cli.main(list(arguments)) == 0
    return json.loads(capsys.readouterr().out)


def test_run_without_llm_repairs_repository_without_touching_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = repositories.make_repository(task_folder(tmp_path) / "project")
    before = repositories.get_state(folder)
    result = run(tmp_path, capsys)
    assert result["solved"] == 1
    assert repositories.get_state(folder) == before
    assert repositories.list_leftovers(folder) == []
    (ref_name,) = repositories.git(folder, "for-each-ref", "--format=%(refname)", "refs/atoll").split()
    assert "+    return a + b" in repositories.git(folder, "diff", f"HEAD...{ref_name}")


def test_run_reports_ref_of_best_worldline_and_diff_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = repositories.make_repository(task_folder(tmp_path) / "project")
    result = run(tmp_path, capsys)
    (ref_name,) = repositories.git(folder, "for-each-ref", "--format=%(refname)", "refs/atoll").split()
    assert result["ref"] == ref_name
    diff = subprocess.run(shlex.split(result["look"]), capture_output=True, text=True, check=True).stdout
    assert "+    return a + b" in diff
    assert run_verb(capsys, "show", "latest", "--json")["result"]["look"] == result["look"]
    assert cli.main(["show", "latest"]) == 0
    assert f"ref: {ref_name}" in capsys.readouterr().out
    assert run_verb(capsys, "resume", "latest", "--json")["ref"] == ref_name  # nothing was evaluated again


def test_save_best_replaces_archived_plan_of_equal_score(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    problem_set = build.load_problem_set(
        Task(problem="workspace", repository="project", keep=1), Options(), make_context(tmp_path, object())
    )
    (problem,) = problem_set.problems
    first, second = (problem.parse_plan(REPLY.replace("a + b", text)) or "" for text in ("a + b", "b + a"))
    assert problem.evaluate(first).score == problem.evaluate(second).score == 0
    ref = problem_set.save_best({problem.id: second})["ref"]
    problem_set.close()
    assert repositories.git(folder, "for-each-ref", "--format=%(refname)", "refs/atoll").split() == [ref]
    assert "+    return b + a" in repositories.git(folder, "diff", f"HEAD...{ref}")


def test_repository_is_found_in_task_folder_or_current_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    repositories.make_repository(tmp_path / "project")
    (tmp_path / "task").mkdir()
    task_folder(tmp_path / "task")
    result = run(tmp_path / "task", capsys)
    assert result["ref"] in repositories.git(tmp_path / "project", "for-each-ref", "refs/atoll")
    assert cli.main(["run", "task", "--set", "task.repository=nowhere"]) == 2
    assert "Folder nowhere not found in " in capsys.readouterr().err


def test_plain_folder_is_repaired_in_a_copy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    folder = task_folder(tmp_path) / "project"
    (folder / "tests").mkdir(parents=True)
    for name, text in {"sums.py": repositories.BROKEN, "tests/test_sums.py": repositories.TESTS}.items():
        (folder / name).write_text(text)
    (folder / "tests/__init__.py").touch()
    assert run(tmp_path, capsys)["solved"] == 1
    assert (folder / "sums.py").read_text() == repositories.BROKEN
    assert not (folder / ".git").exists()


def test_problem_text_has_failures_and_edits_are_tested(tmp_path):
    folder = repositories.make_repository(tmp_path / "project")
    problem_set = build.load_problem_set(
        Task(problem="workspace", repository="project"), Options(), make_context(tmp_path, object())
    )
    (problem,) = problem_set.problems
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
    problem_set.close()
    assert repositories.list_leftovers(folder) == []


def test_conversation_with_scripted_llm_repairs_repository(tmp_path):
    repositories.make_repository(tmp_path / "project")
    prompts = list[str]()

    def script(step: int, call: str, prompt: str) -> str:
        prompts.append(prompt)
        return REPLY.replace("a + b", "a * b") if len(prompts) == 1 else REPLY

    built = mind.build(
        Task(problem="workspace", repository="project"),
        Options(num_islands=1, num_gens=2, num_convs=1),
        make_context(tmp_path, testing.ScriptedLLM(script)),
    )
    evolver = system.SystemEvolver(built.config, built.report, built.close)
    evolver.run()
    assert built.summarize_result is not None
    assert built.summarize_result(evolver)["solved"] == 1
    assert any("6 != 5" in prompt for prompt in prompts)


def test_endless_test_fails_at_time_limit(tmp_path):
    repositories.make_repository(tmp_path / "project")
    problem_set = build.load_problem_set(
        Task(problem="workspace", repository="project"), Options(), make_context(tmp_path, object())
    )
    (problem,) = problem_set.problems
    loop = problem.parse_plan(REPLY.replace("    return a + b", "    while True: pass"))
    verdict = problem.evaluate(loop or "")
    assert verdict.progress == 0.5
    assert "it took longer than" in verdict.format_feedback()
    problem_set.close()


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (Task(problem="workspace"), "Set task.repository"),
        (Task(problem="workspace", repository="nowhere"), "Folder nowhere not found"),
        (Task(problem="workspace", repository="project", tests="docs"), "no tests found|cannot be run"),
        (Task(problem="workspace", repository="project", commands=("no-such",)), "Program .* not found"),
    ],
)
def test_bad_setup_raises_setup_error(tmp_path, task, why):
    folder = repositories.make_repository(tmp_path / "project")
    with pytest.raises(errors.SetupError, match=why):
        build.load_problem_set(task, Options(), make_context(tmp_path))
    assert repositories.list_leftovers(folder) == []
