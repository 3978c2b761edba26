"""Worldlines that edit, read, run and are tested, each in git and in the jail."""

from pathlib import Path

import pytest

from atoll import executor, sandbox
from atoll.mind import workspace
from atoll.mind.actions import Edit, Read, Run, Think
from atoll.mind.worldline import BASE, Plan, Worldline
from tests.mind.workspace import repositories

MEND = Edit("sums.py", "a - b", "a + b")
PLACE = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)
W0 = Worldline(BASE)


def kind_of(folder: Path, **options) -> workspace.GitBackend:
    space = workspace.Workspace(folder, "run")
    terms = workspace.RunnerConfig(commands=options.pop("commands", ("python",)))
    checks = workspace.WorkspaceRunner(space, PLACE, terms)
    return workspace.GitBackend(space, checks, **options)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    return repositories.made(tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture(scope="module")
def kind(shared):
    made = kind_of(shared, protected=("tests",))
    yield made
    made.close()
    assert repositories.leftovers(shared) == []


def ran(kind: workspace.GitBackend, worldline_id: str, *actions, parent: Worldline = W0) -> Worldline:
    plan = Plan(actions, parents=(parent.worldline_id,))
    return kind.run(kind.fork(parent, plan, worldline_id), plan)


def test_the_tests_run_in_the_jail_and_say_what_fails(kind):  # A3
    found = kind.test(W0)
    assert found.score == 0.5
    assert "1 of 2 tests pass" in found.feedback
    assert "tests.test_sums.Sums.test_add fails" in found.feedback
    assert "-1 != 5" in found.feedback


def test_an_edit_mends_the_worldline_and_not_the_main_worktree(kind, shared):
    before = repositories.look(shared)
    line = ran(kind, "mend", Think("it subtracts"), Read("sums.py"), MEND)
    assert [each.is_ok for each in line.tool_history] == [True, True, True]
    assert "return a - b" in line.tool_history[1].output
    assert kind.test(line).score == 1.0
    assert "+    return a + b" in kind.diff(line, W0)
    assert 0 < kind.compute_divergence(line, W0) < 1
    assert kind.compute_divergence(W0, W0) == 0
    assert repositories.look(shared) == before


def test_a_command_runs_in_the_jail_on_what_was_edited_before_it(kind, shared):
    script = "import sums, os; print(sums.add(2, 3)); open('sums.py', 'w').write(''); print(os.environ.get('HOME'))"
    line = ran(kind, "command", MEND, Run(("python", "-c", script)), Read("sums.py"))
    assert line.tool_history[1].output.startswith("5\n")
    assert line.tool_history[2].output == repositories.MENDED  # what a command writes is gone with its jail
    assert line.tool_history[1].is_ok


def test_a_command_that_fails_ends_the_plan_and_is_data(kind):
    line = ran(kind, "fail", Run(("python", "-c", "raise SystemExit(3)")), MEND)
    assert [each.is_ok for each in line.tool_history] == [False]
    assert "(exit 3)" in line.tool_history[0].output
    assert line.checkpoint.commit == kind.workspace.base


def test_the_context_lies_beside_the_workspace_and_a_fork_takes_its_first_lines_along(kind):  # spec 1.6
    one = ran(kind, "context-1", Think("first"))
    two = ran(kind, "context-2", Think("second"), parent=one)
    later = kind.run(one, Plan((Think("third"),)))
    notes = [
        [each["action"]["note"] for each in kind.workspace.contexts.read(line.checkpoint)] for line in (two, later)
    ]
    assert notes == [["first", "second"], ["first", "third"]]
    assert two.checkpoint.line == 2


def test_a_fork_of_a_fork_stands_where_its_parent_stands(kind):
    one = ran(kind, "fork-1", MEND)
    kind.archive(one)
    two = ran(kind, "fork-2", Edit("more.py", "", "x = 1\n"), parent=one)
    changed = [each.path for each in kind.workspace.numstat("fork-2")]
    assert changed == ["more.py", "sums.py"]
    assert kind.test(two).score == 1.0


def test_an_edit_must_name_a_text_that_stands_once(kind):
    for number, old in enumerate(("no such text", "return")):
        line = ran(kind, f"once-{number}", Edit("sums.py", old, "x"))
        assert not line.tool_history[0].is_ok
        assert "give one that stands there once" in line.tool_history[0].output


def test_protected_files_stay_as_they_are(kind):
    for number, path in enumerate(("tests/test_sums.py", "tests/new/test_more.py")):
        line = ran(kind, f"protected-{number}", Edit(path, "", "pass\n"))
        assert "task.protected" in line.tool_history[0].output


def test_a_worldline_whose_tests_never_end_is_a_failure_and_no_exception(tmp_path):
    place = executor.ExecutorConfig(sandbox.Limits(seconds=1.0), is_unsafe=True)
    space = workspace.Workspace(repositories.made(tmp_path / "project"), "run")
    kind = workspace.GitBackend(space, workspace.WorkspaceRunner(space, place))
    line = ran(kind, "1.0", Edit("sums.py", "    return 2 * a", "    while True: pass"))
    assert "longer than 1 s" in str(kind.test(line).failure)
    kind.close()


def test_a_worldline_that_does_not_parse_fails_its_tests(kind):
    found = kind.test(ran(kind, "broken", Edit("sums.py", "def add", "def (")))
    assert found.score == 0.0
    assert "SyntaxError" in found.feedback


def test_pytest_finds_and_runs_tests_too(tmp_path):
    files = {
        "sums.py": repositories.BROKEN,
        "test_it.py": "import sums\ndef test_it():\n    assert sums.add(1, 1) == 2\n",
    }
    space = workspace.Workspace(repositories.made(tmp_path / "project", files), "run")
    checks = workspace.WorkspaceRunner(space, PLACE, workspace.RunnerConfig("pytest"))
    kind = workspace.GitBackend(space, checks)
    assert kind.test(W0).score == 0.0
    assert "assert 0 == 2" in kind.test(W0).feedback
    assert kind.test(ran(kind, "1.0", MEND)).score == 1.0
    kind.close()
