"""Goals of a workspace: checks, localization, tools, kept worldlines and command-line agents."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from atoll import cli, control, errors, executor, sandbox, store, system, testing
from atoll.evaluation import Evaluation
from atoll.mind import build as mind
from atoll.mind import engine as mind_engine
from atoll.mind.config import Options, Task
from atoll.mind.workspace import build, localize, repair_problem, runner
from atoll.mind.workspace.repair_problem import RepairProblem
from tests.mind.workspace import repositories

GREEN = {"sums.py": repositories.MENDED, "tests/test_sums.py": repositories.TESTS, "tests/__init__.py": ""}
JUNK = "FILE: junk.py\n<<<<<<< SEARCH\n=======\nx = 1\n>>>>>>> REPLACE"
GOAL_TEST = """import unittest
import sums
class Halves(unittest.TestCase):
    def test_half(self): self.assertEqual(sums.half(8), 4)
"""
MEND = "FILE: sums.py\n<<<<<<< SEARCH\n    return a - b\n=======\n    return a + b\n>>>>>>> REPLACE"
HALF = (
    "FILE: sums.py\n<<<<<<< SEARCH\n    return 2 * a\n=======\n    return 2 * a\n\n\ndef half(a):\n    return a // 2\n"
    ">>>>>>> REPLACE"
)
ONE_PLAN = Options(num_islands=1, num_gens=1, num_convs=1, num_seq=1)


def make_context(folder: Path, model=None) -> system.BuildContext:
    executor_config = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)
    return system.BuildContext(folder, model, executor_config, 1, 0, store.MemoryBlobs())


def run_script(tmp_path: Path, task: Task, responses: list[str], options: Options = ONE_PLAN):
    """Runs a search with scripted responses. Returns its result and the prompts."""
    prompts = list[str]()

    def script(iteration: int, call: str, prompt: str) -> str:
        prompts.append(prompt)
        return responses[min(len(prompts), len(responses)) - 1]

    built = mind.build(task, options, make_context(tmp_path, testing.ScriptedLLM(script)))
    evolver = system.SystemEvolver(built.config, built.report, built.close)
    evolver.run()
    assert built.summarize_result is not None
    return built.summarize_result(evolver), prompts


def test_junk_file_in_green_repository_is_not_solved(tmp_path):
    repositories.make_repository(tmp_path / "project", GREEN)
    task = Task(problem="workspace", repository="project", goal="Add a function half.")
    result, prompts = run_script(tmp_path, task, [JUNK])
    assert result["solved"] == 0
    assert "Add a function half." in prompts[0]


def test_junk_file_does_not_pass_checks_of_new_function(tmp_path):
    repositories.make_repository(tmp_path / "project", GREEN)
    (tmp_path / "test_half.py").write_text(GOAL_TEST)
    task = Task(problem="workspace", repository="project", tests="tests", goal="Add half.", checks=("test_half.py",))
    result, prompts = run_script(tmp_path, task, [JUNK])
    assert result["solved"] == 0
    assert "sums.half(8)" in prompts[0]


def test_goal_with_given_tests_is_solved_by_new_function(tmp_path):
    folder = repositories.make_repository(tmp_path / "project", GREEN)
    (tmp_path / "test_half.py").write_text(GOAL_TEST)
    (tmp_path / "issue.md").write_text("Add half(a) to sums.")
    task = Task(problem="workspace", repository="project", tests="tests", goal="issue.md", checks=("test_half.py",))
    responses = [f"TOOL: search twice\nTOOL: read tests/test_half.py\n{HALF}\nTOOL: test", "DONE"]
    result, prompts = run_script(tmp_path, task, responses)
    assert result["solved"] == 1
    assert "Add half(a) to sums." in prompts[0]
    assert "sums.py:5: def twice(a):" in prompts[1]
    assert "All 1 checks pass" in prompts[1]
    assert "7 further responses with tools" in prompts[1]
    assert "test_half.py" not in repositories.git(folder, "diff", "--stat", f"HEAD...{result['ref']}")


def test_green_repository_without_goal_and_passing_checks_are_setup_errors(tmp_path):
    repositories.make_repository(tmp_path / "project", GREEN)
    for task, reason in (
        (Task(problem="workspace", repository="project"), "nothing to repair"),
        (Task(problem="workspace", repository="project", goal="x", checks=("test_add",)), "pass already"),
        (Task(problem="workspace", repository="project", goal="x"), "only an LLM"),
    ):
        with pytest.raises(errors.SetupError, match=reason):
            build.load_problem_set(task, Options(), make_context(tmp_path))


def test_check_of_missing_test_file_stays_open_until_its_tests_pass():
    def report(passed: str, failed: str) -> runner.TestResults:
        return runner.TestResults(Evaluation(1.0), frozenset(passed.split()), frozenset(failed.split()))

    goal = repair_problem.make_goal("", (), report("t.a", "unittest.loader._FailedTest.tests.test_new"))
    assert goal.compare(report("t.a", "")).open_checks
    assert goal.compare(report("t.a tests.test_new.T.test_b", "")).open_checks == []
    assert goal.compare(report("tests.test_new.T.test_b", "")).broken == ["t.a"]


def test_tools_see_edits_of_session_and_are_recorded(tmp_path):
    repositories.make_repository(tmp_path / "project")
    responses = [
        f"TOOL: list\nTOOL: paint it\nTOOL: read nowhere.py\n{MEND}\nTOOL: read sums.py 1-2",
        f"{JUNK.replace('junk.py', 'tests/junk.py')}\nTOOL: test\nTOOL: run python -c print(7)",
        "DONE",
    ]
    problem_set = build.load_problem_set(
        Task(problem="workspace", repository="project", tests="tests"), Options(), make_context(tmp_path, object())
    )
    (problem,) = problem_set.problems
    assert isinstance(problem, RepairProblem)
    session = problem.open_tools()
    *outputs, last = [session.use_tools(response, 3) or "" for response in responses]
    assert not last
    assert "sums.py (6 lines)" in outputs[0]
    assert "paint it: unknown" in outputs[0]
    assert "'nowhere.py' not found" in outputs[0]
    assert "2:     return a + b" in outputs[0]
    assert "is protected" in outputs[1]
    assert "checks pass" in outputs[1]
    assert "7" in outputs[1]
    assert problem.evaluate(session.read_plan("DONE") or "").is_solved
    assert [result.is_ok for result in session.results] == [True, True, False, True, False, True, True]
    problem_set.close()


def test_several_worldlines_are_kept_with_results_and_costs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    two_faults = repositories.BROKEN.replace("2 * a", "3 * a")
    repositories.make_repository(tmp_path / "project", {**GREEN, "sums.py": two_faults})
    agent = tmp_path / "agent.py"
    agent.write_text(
        "import pathlib, sys\n"
        "prompt = sys.stdin.read()\n"
        "path = pathlib.Path('sums.py')\n"
        "text = path.read_text().replace('a - b', 'a + b')\n"
        "path.write_text(text.replace('3 * a', '2 * a') if 'Plans so far' in prompt else text)\n"
        "print('Edited sums.py.')\n"
    )
    config = 'system = "mind"\n[task]\nproblem = "workspace"\nrepository = "project"\ntests = "tests"\n'
    (tmp_path / "atoll.toml").write_text(f"{config}[mind]\nnum_islands = 1\nnum_gens = 2\nnum_convs = 1\nnum_seq = 2\n")
    llm = f"cli:{shlex.quote(sys.executable)} {shlex.quote(str(agent))}"
    assert cli.main(["run", ".", "--json", "--workers", "1", "--llm", llm]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["solved"] == 1
    assert cli.main(["worldlines", "list", "latest", "--json"]) == 0
    items = json.loads(capsys.readouterr().out)
    assert sorted(item["result"]["open_checks"] for item in items) == [0, 1]
    assert all(item["result"]["calls"] == 1 for item in items)
    assert cli.main(["worldlines", "list", "latest"]) == 0
    assert "2 of 2" in capsys.readouterr().out
    best = next(item["id"] for item in items if not item["result"]["open_checks"])
    assert cli.main(["worldlines", "learn", "latest", "--reason", "none", "--author", "ada"]) == 2
    assert "Review some" in capsys.readouterr().err
    assert cli.main(["worldlines", "approve", "latest", best, "--reason", "read it", "--author", "ada"]) == 0
    capsys.readouterr()
    assert cli.main(["worldlines", "learn", "latest", "--reason", "it was right", "--author", "ada", "--json"]) == 0
    learned = json.loads(capsys.readouterr().out)
    assert (learned["old_version"], learned["version"]) == (1, 2)
    assert learned["new"]["task_progress"] > learned["old"]["task_progress"]
    assert cli.main(["params", "rollback", "mind/weights", "1", "-m", "too fast", "--author", "ada"]) == 0
    capsys.readouterr()
    assert cli.main(["params", "get", "mind/weights", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == list(learned["old"].values())


def test_git_repository_without_settings_is_a_task(tmp_path, monkeypatch, capsys):
    folder = repositories.make_repository(tmp_path / "project")
    monkeypatch.chdir(folder)
    assert cli.main(["run", ".", "--json", "--workers", "1", "--goal", "Sums must add."]) == 0
    assert json.loads(capsys.readouterr().out)["solved"] == 1


def test_localization_ranks_function_of_trace_goal_and_spectrum_first():
    body = "".join(f"def step_{index}(x):\n    return x + {index}\n\n\n" for index in range(40))
    texts = {f"pkg/m{index}.py": body.replace("step", f"m{index}") for index in range(10)}
    texts["tests/test_it.py"] = "def test_total():\n    assert m3_7(1) == 8\n"
    is_test = {path: path.startswith("tests") for path in texts}

    def first(**evidence) -> str:
        snippets = localize.rank(texts, localize.Evidence(**evidence), is_test)
        return next(item.definition.name for item in snippets if not is_test[item.definition.path])

    assert first(goal="The result of m4_2 is wrong.") == "m4_2"
    assert first(failures='File "pkg/m5.py", line 10, in m5_2') == "m5_2"
    assert first(failed=frozenset({"tests.test_it.test_total"})) == "m3_7"
    assert first(suspicion={"pkg/m2.py": {6: 1.0, 10: 0.2}}) == "m2_1"
    shown = localize.show(texts, localize.rank(texts, localize.Evidence(goal="m4_2"), is_test), 300, {})
    assert "def m4_2(x):" in shown
    assert len(shown) <= 300


def test_edits_of_session_are_the_plan_when_the_budget_ends(tmp_path):
    repositories.make_repository(tmp_path / "project")
    problem_set = build.load_problem_set(
        Task(problem="workspace", repository="project"), Options(), make_context(tmp_path, object())
    )
    engine = mind_engine.MindEvolutionEngine(
        list(problem_set.problems), lambda prompt: f"{MEND}\nTOOL: test", {"num_gens": 1}, control.Budget(calls=1)
    )
    result = engine.run()
    problem_set.close()
    assert (result.stats["solved"], result.stats["calls"]) == (1, 1)
