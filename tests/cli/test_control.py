"""Command `control`."""

import pytest

from atoll import control, store
from tests import fixtures
from tests.cli import apps


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as run_store:
        run_store.create_run("run")
    return path


@pytest.fixture
def shell(capsys, path):
    return apps.Shell(capsys, path)


def posted(path: str) -> list[control.Command]:
    with store.open(path) as run_store:
        return list(run_store.inbox("run").read(0))


@pytest.fixture
def alive(path):
    """A process writes the run."""
    with store.open(path) as run_store, run_store.lock_run("run"):
        yield


@pytest.mark.parametrize("action", ["pause", "resume", "stop"])
def test_running_run_gets_command(action, shell, path, alive):
    assert shell("control", "run", action).out == f"Sent to run run: {action}.\n"
    assert [command.kind for command in posted(path)] == [action]


@pytest.mark.parametrize("action", ["pause", "resume", "stop"])
def test_ended_run_gets_no_command(action, shell, path):
    text = f"Run run is not running, so there is nothing to {action}. Continue it with 'atoll resume run'."
    assert shell.fail("control", "run", action) == text
    assert not posted(path)


def test_set_raises_limits_and_changes_settings(shell, path, alive):
    output = shell("control", "run", "set", "iterations=2000", "usd=2.5", "stride=0.1", "tone=loud and clear")
    assert [(command.kind, dict(command.data)) for command in posted(path)] == [
        ("raise", {"iterations": 2000, "usd": 2.5}),
        ("set", {"stride": 0.1, "tone": "loud and clear"}),
    ]
    assert "raise the limits to iterations=2000, usd=2.5, where they are lower; set stride=0.1, " in output.out


def test_ended_run_reads_new_limits_on_resume(shell, path):
    output = shell("control", "run", "set", "evaluations=10")
    assert output.out.endswith("It is not running and will read this when it resumes.\n")
    assert len(posted(path)) == 1


def test_json_lists_posted_commands(shell, alive):
    data = shell("control", "run", "stop", "--json").json()
    reason = {"reason": "stopped by atoll control"}
    assert data == {"run": "run", "posted": [{"number": 1, "kind": "stop", "data": reason}], "running": True}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["set"], "'set' needs KEY=VALUE, e.g. 'atoll control RUN set iterations=2000'."),
        (["set", "fast"], "'fast' is not KEY=VALUE. Write for example iterations=2000."),
        (["set", "iterations=many"], "iterations=many is not a limit. Give a whole number above 0."),
        (["set", "iterations=1.5"], "iterations=1.5 is not a limit. Give a whole number above 0."),
        (["set", "usd=nan"], "usd=nan is not a limit. Give a number above 0."),
        (["set", "seconds=-3"], "seconds=-3 is not a limit. Give a number above 0."),
        (["set", "itertions=5"], "Limit itertions is unknown. Did you mean iterations?"),
        (["stop", "iterations=5"], "'stop' takes no KEY=VALUE. Use 'atoll control RUN set iterations=5'."),
    ],
    ids=" ".join,
)
def test_invalid_command_is_not_posted(arguments, sentence, shell, path, alive):
    assert shell.fail("control", "run", *arguments) == sentence
    assert not posted(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("danger_treshold=0.5", "Unknown key danger_treshold; the nearest is survival.danger_threshold."),
        ("survival.fears=off", "Unknown key fears; the nearest is survival.fear."),
        ("danger_threshold=7", "survival.danger_threshold is 7: it should be less than or equal to 1."),
    ],
)
def test_unknown_setting_fails(change, sentence, shell, path):
    with store.open(path) as run_store:
        run_store.create_run("lives", config={"system": "survival"})
    assert shell.fail("control", "lives", "set", change) == sentence
    with store.open(path) as run_store:
        assert not list(run_store.inbox("lives").read(0))


def test_setting_can_have_its_section(shell, path):
    with store.open(path) as run_store:
        run_store.create_run("lives", config={"system": "survival"})
    shell("control", "lives", "set", "survival.danger_threshold=0.5", "exploration_bonus=2")
    with store.open(path) as run_store:
        (command,) = run_store.inbox("lives").read(0)
    assert dict(command.data) == {"danger_threshold": 0.5, "exploration_bonus": 2}


def test_unknown_action_fails(shell):
    assert "hurry" in shell("control", "run", "hurry", status=2).err


def test_run_obeys_command(shell, path):
    with store.open(path) as run_store, run_store.lock_run("run"):
        evolver = fixtures.make_evolver(
            fixtures.Walker(delays=0.01),
            records=run_store.journal("run"),
            inbox=run_store.inbox("run"),
            iterations=100_000,
        )
        evolver.start()
        shell("control", "run", "set", "stride=0.25")
        shell("control", "run", "stop")
        evolver.join()
        assert evolver.reason == "stopped by atoll control"
        assert [record.data["kind"] for record in run_store.journal("run").read_kinds("controlled")] == ["set", "stop"]
