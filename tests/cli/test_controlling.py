"""`atoll control`: wishes to a run in another process."""

import pytest

from atoll import control, store
from tests import toys
from tests.cli import apps


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "atoll.db")
    with store.open(path) as kept:
        kept.create_run("run")
    return path


@pytest.fixture
def shell(capsys, path):
    return apps.Shell(capsys, path)


def posted(path: str) -> list[control.Command]:
    with store.open(path) as kept:
        return list(kept.inbox("run").read(0))


@pytest.fixture
def alive(path):
    """Somebody writes the run."""
    with store.open(path) as kept, kept.lock_run("run"):
        yield


@pytest.mark.parametrize("action", ["pause", "resume", "stop"])
def test_a_living_run_is_told(action, shell, path, alive):
    assert shell("control", "run", action).out == f"Sent to run run: {action}.\n"
    assert [command.kind for command in posted(path)] == [action]


@pytest.mark.parametrize("action", ["pause", "resume", "stop"])
def test_a_dead_run_is_not_told_what_it_would_obey_at_its_next_start(action, shell, path):
    said = shell.refused("control", "run", action)
    assert said.startswith("Run run is not running")
    assert said.endswith("Continue it with 'atoll resume run'.")
    assert not posted(path)


def test_limits_are_raised_and_other_keys_are_settings(shell, path, alive):
    told = shell("control", "run", "set", "iterations=2000", "usd=2.5", "stride=0.1", "tone=loud and clear")
    assert [(command.kind, dict(command.data)) for command in posted(path)] == [
        ("raise", {"iterations": 2000, "usd": 2.5}),
        ("set", {"stride": 0.1, "tone": "loud and clear"}),
    ]
    assert "raise the limits to iterations=2000, usd=2.5, where they are lower; set stride=0.1, " in told.out


def test_a_dead_run_reads_new_limits_when_it_resumes(shell, path):
    told = shell("control", "run", "set", "evaluations=10")
    assert told.out.endswith("It is not running and will read this when it resumes.\n")
    assert len(posted(path)) == 1


def test_as_json_it_says_what_was_posted(shell, alive):
    data = shell("control", "run", "stop", "--json").json()
    reason = {"reason": "stopped by atoll control"}
    assert data == {"run": "run", "posted": [{"number": 1, "kind": "stop", "data": reason}], "running": True}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["set"], "'set' needs what to change: 'atoll control RUN set iterations=2000'."),
        (["set", "fast"], "'fast' is not understood: write KEY=VALUE, e.g. iterations=2000."),
        (["set", "iterations=many"], "iterations=many is no limit: give a whole number above 0."),
        (["set", "iterations=1.5"], "iterations=1.5 is no limit: give a whole number above 0."),
        (["set", "usd=nan"], "usd=nan is no limit: give a number above 0."),
        (["set", "seconds=-3"], "seconds=-3 is no limit: give a number above 0."),
        (["set", "itertions=5"], "There is no limit itertions; the nearest is iterations."),
        (["stop", "iterations=5"], "'stop' changes no keys: write 'atoll control RUN set iterations=5'."),
    ],
    ids=" ".join,
)
def test_what_is_not_understood_is_refused_and_not_posted(arguments, sentence, shell, path, alive):
    assert shell.refused("control", "run", *arguments) == sentence
    assert not posted(path)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("danger_treshold=0.5", "There is no key danger_treshold; the nearest is survival.danger_threshold."),
        ("survival.fears=off", "There is no key fears; the nearest is survival.fear."),
        ("danger_threshold=7", "survival.danger_threshold is 7: it should be less than or equal to 1."),
    ],
)
def test_a_key_that_the_runs_system_has_not_is_refused(change, sentence, shell, path):
    with store.open(path) as kept:
        kept.create_run("lives", config={"system": "survival"})
    assert shell.refused("control", "lives", "set", change) == sentence
    with store.open(path) as kept:
        assert not list(kept.inbox("lives").read(0))


def test_a_key_may_be_named_with_its_section(shell, path):
    with store.open(path) as kept:
        kept.create_run("lives", config={"system": "survival"})
    shell("control", "lives", "set", "survival.danger_threshold=0.5", "exploration_bonus=2")
    with store.open(path) as kept:
        (command,) = kept.inbox("lives").read(0)
    assert dict(command.data) == {"danger_threshold": 0.5, "exploration_bonus": 2}


def test_an_unknown_action_is_bad_usage(shell):
    assert "hurry" in shell("control", "run", "hurry", status=2).err


def test_a_run_obeys(shell, path):
    with store.open(path) as kept, kept.lock_run("run"):
        evolver = toys.evolver(
            toys.Walker(naps=0.01), records=kept.journal("run"), inbox=kept.inbox("run"), iterations=100_000
        )
        evolver.start()
        shell("control", "run", "set", "stride=0.25")
        shell("control", "run", "stop")
        evolver.join()
        assert evolver.reason == "stopped by atoll control"
        assert [record.data["kind"] for record in kept.journal("run").read_kinds("controlled")] == ["set", "stop"]
