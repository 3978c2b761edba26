"""Shared runs: `run --shared` and `join`."""

import json

import pytest

from atoll import cli
from tests.chaos.test_coordinators import TASK, TOML

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def task(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "atoll.toml").write_text(TOML)
    (tmp_path / "task" / "task.py").write_text(TASK.replace("0.2", "0.0"))


def test_shared_run_prints_join_command_and_summary(capsys):
    assert cli.main(["run", "task", "--shared", "--budget", "20evals", "--workers", "2"]) == 0
    output = capsys.readouterr()
    assert "Join with: " in output.err
    assert "runs islands 0, 1, 2" in output.err
    assert "budget of 20 evaluations used" in output.out
    assert " resume " not in output.out
    assert cli.main(["join", "latest", "--json"]) == 0  # it has ended: no island is left to run
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["reason"]) == ("done", "budget of 20 evaluations used")


@pytest.mark.parametrize("option", [["--dashboard"], ["--baselines"], ["--linger", "5"], ["--output", "there"]])
def test_shared_rejects_single_process_options(capsys, option):
    assert cli.main(["run", "task", "--shared", *option]) == 2
    assert f"{option[0]} does not work with --shared" in capsys.readouterr().err


def test_unshared_run_cannot_be_joined(capsys):
    assert cli.main(["run", "task", "--iterations", "2", "--quiet"]) == 0
    capsys.readouterr()
    assert cli.main(["join", "latest"]) == 2
    assert "Start a run that others can join with 'atoll run TASK --shared'." in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["nan", "inf", "0", "1e9"])
def test_invalid_lease_seconds_fail(capsys, seconds):
    assert cli.main(["run", "task", "--shared", "--lease-seconds", seconds]) == 2
    assert "Invalid value for '--lease-seconds'" in capsys.readouterr().err
