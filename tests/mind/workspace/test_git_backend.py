"""Worldlines that edit, read, run and are tested, in git and in the sandbox."""

from pathlib import Path

import pytest

from atoll import executor, sandbox
from atoll.mind import workspace
from atoll.mind.actions import Edit, Read, Run, Think
from atoll.mind.worldline import BASE, Plan, Worldline
from tests.mind.workspace import repositories

MEND = Edit("sums.py", "a - b", "a + b")
EXECUTOR = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)
W0 = Worldline(BASE)


def make_backend(folder: Path, **options) -> workspace.GitBackend:
    space = workspace.Workspace(folder, "run")
    config = workspace.RunnerConfig(commands=options.pop("commands", ("python",)))
    runner = workspace.WorkspaceRunner(space, EXECUTOR, config)
    return workspace.GitBackend(space, runner, **options)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    return repositories.make_repository(tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture(scope="module")
def backend(shared):
    opened = make_backend(shared, protected=("tests",))
    yield opened
    opened.close()
    assert repositories.list_leftovers(shared) == []


def run_actions(backend: workspace.GitBackend, worldline_id: str, *actions, parent: Worldline = W0) -> Worldline:
    plan = Plan(actions, parents=(parent.worldline_id,))
    return backend.run(backend.fork(parent, plan, worldline_id), plan)


def test_tests_run_in_sandbox_and_report_failures(backend):  # A3
    result = backend.test(W0)
    assert result.score == 0.5
    assert "1 of 2 tests pass" in result.feedback
    assert "tests.test_sums.Sums.test_add fails" in result.feedback
    assert "-1 != 5" in result.feedback


def test_edit_changes_worldline_but_not_main_worktree(backend, shared):
    before = repositories.get_state(shared)
    line = run_actions(backend, "mend", Think("it subtracts"), Read("sums.py"), MEND)
    assert [item.is_ok for item in line.tool_history] == [True, True, True]
    assert "return a - b" in line.tool_history[1].output
    assert backend.test(line).score == 1.0
    assert "+    return a + b" in backend.diff(line, W0)
    assert 0 < backend.compute_divergence(line, W0) < 1
    assert backend.compute_divergence(W0, W0) == 0
    assert repositories.get_state(shared) == before


def test_command_runs_in_sandbox_on_edited_files(backend, shared):
    script = "import sums, os; print(sums.add(2, 3)); open('sums.py', 'w').write(''); print(os.environ.get('HOME'))"
    line = run_actions(backend, "command", MEND, Run(("python", "-c", script)), Read("sums.py"))
    assert line.tool_history[1].output.startswith("5\n")
    assert line.tool_history[2].output == repositories.MENDED  # what a command writes is lost with its sandbox
    assert line.tool_history[1].is_ok


def test_failed_command_ends_plan_without_exception(backend):
    line = run_actions(backend, "fail", Run(("python", "-c", "raise SystemExit(3)")), MEND)
    assert [item.is_ok for item in line.tool_history] == [False]
    assert "(exit 3)" in line.tool_history[0].output
    assert line.checkpoint.commit == backend.workspace.base


def test_fork_copies_context_up_to_checkpoint(backend):  # spec 1.6
    one = run_actions(backend, "context-1", Think("first"))
    two = run_actions(backend, "context-2", Think("second"), parent=one)
    later = backend.run(one, Plan((Think("third"),)))
    notes = [
        [item["action"]["note"] for item in backend.workspace.contexts.read(line.checkpoint)] for line in (two, later)
    ]
    assert notes == [["first", "second"], ["first", "third"]]
    assert two.checkpoint.line == 2


def test_fork_of_fork_starts_at_its_parent(backend):
    one = run_actions(backend, "fork-1", MEND)
    backend.archive(one)
    two = run_actions(backend, "fork-2", Edit("more.py", "", "x = 1\n"), parent=one)
    changed = [item.path for item in backend.workspace.numstat("fork-2")]
    assert changed == ["more.py", "sums.py"]
    assert backend.test(two).score == 1.0


def test_edit_requires_unique_text(backend):
    for number, old in enumerate(("no such text", "return")):
        line = run_actions(backend, f"once-{number}", Edit("sums.py", old, "x"))
        assert not line.tool_history[0].is_ok
        assert "Use a text that occurs exactly once" in line.tool_history[0].output


def test_edit_of_protected_file_fails(backend):
    for number, path in enumerate(("tests/test_sums.py", "tests/new/test_more.py")):
        line = run_actions(backend, f"protected-{number}", Edit(path, "", "pass\n"))
        assert "task.protected" in line.tool_history[0].output


def test_endless_tests_are_a_failure_not_an_exception(tmp_path):
    executor_config = executor.ExecutorConfig(sandbox.Limits(seconds=1.0), is_unsafe=True)
    space = workspace.Workspace(repositories.make_repository(tmp_path / "project"), "run")
    backend = workspace.GitBackend(space, workspace.WorkspaceRunner(space, executor_config))
    line = run_actions(backend, "1.0", Edit("sums.py", "    return 2 * a", "    while True: pass"))
    assert "longer than 1 s" in str(backend.test(line).failure)
    backend.close()


def test_syntax_error_fails_tests(backend):
    result = backend.test(run_actions(backend, "broken", Edit("sums.py", "def add", "def (")))
    assert result.score == 0.0
    assert "SyntaxError" in result.feedback


def test_pytest_runner_finds_and_runs_tests(tmp_path):
    files = {
        "sums.py": repositories.BROKEN,
        "test_it.py": "import sums\ndef test_it():\n    assert sums.add(1, 1) == 2\n",
    }
    space = workspace.Workspace(repositories.make_repository(tmp_path / "project", files), "run")
    runner = workspace.WorkspaceRunner(space, EXECUTOR, workspace.RunnerConfig("pytest"))
    backend = workspace.GitBackend(space, runner)
    assert backend.test(W0).score == 0.0
    assert "assert 0 == 2" in backend.test(W0).feedback
    assert backend.test(run_actions(backend, "1.0", MEND)).score == 1.0
    backend.close()
