"""A run is repeated from its own replies, from the store or from a file, without its model."""

import json

import pytest

from atoll import cli, store, testing
from tests.cli import tasks

SAME = ("--iterations", "12", "--seed", "5", "--workers", "2", "--json", "-q")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ATOLL_STORE", raising=False)
    tasks.make(tmp_path / "task")
    return tmp_path


def run(capsys, model: str, *options: str) -> str:
    """Runs the task and returns the run's id."""
    assert cli.main(["run", "task", "--llm", model, *SAME, *options]) == 0, capsys.readouterr().err
    return str(json.loads(capsys.readouterr().out)["run"])


def exported(run: str, path: str = "atoll.db") -> list[str]:
    with store.Store(path) as run_store:
        return [line.replace(run, "RUN") for line in run_store.export(run)]


def test_recorded_run_repeats_bytes_from_store_and_file(capsys, folder):
    with testing.ModelServer(tasks.answer) as server:
        live = run(capsys, f"openai:m@{server.url}")
        num_requests = server.num_requests
        assert cli.main(["export", live, "--replay", "-o", "replies.jsonl"]) == 0
        by_id = run(capsys, f"replay:{live}")
        by_name = run(capsys, "replay:latest")
        assert server.num_requests == num_requests == 12
    by_file = run(capsys, "replay:replies.jsonl", "--store", "other.db")
    assert exported(live) == exported(by_id) == exported(by_name) == exported(by_file, "other.db")
    with store.Store("atoll.db") as run_store:
        assert run_store.get_run(by_name).config["run"]["llm"] == f"recorded:{by_id}"
    assert len((folder / "replies.jsonl").read_text().splitlines()) == 12


def test_missing_recording_is_an_error(capsys):
    assert cli.main(["run", "task", "--llm", "replay:nothing"]) == 2
    assert "Store atoll.db has no runs" in capsys.readouterr().err


@pytest.mark.parametrize("route", ["weights", "bandit", "plateau"])
def test_recorded_ensemble_repeats_routing(capsys, route):
    with testing.ModelServer(tasks.answer) as one, testing.ModelServer(tasks.answer) as other:
        names = f"openai:one@{one.url}*0.5,openai:other@{other.url}*0.5"
        options = ("--set", f"llm.route={route}", "--set", "llm.plateau_steps=4")
        runs = [run(capsys, names, *options) for _ in range(2)]
        assert one.num_requests
        assert other.num_requests
        assert one.num_requests + other.num_requests == 24
    assert exported(runs[0]) == exported(runs[1])
    with store.Store("atoll.db") as run_store:
        advice = [record.data["advice"]["llm"] for record in run_store.journal(runs[0]).read_kinds("begun")]
    assert {name.split("@")[0] for name in advice} == {"openai:one", "openai:other"}


def test_failing_ensemble_member_is_replaced(capsys):
    with testing.ModelServer(tasks.answer) as good, testing.ModelServer(faults=testing.Fault(500)) as bad:
        names = f"openai:bad@{bad.url}*0.5,openai:good@{good.url}*0.5"
        run(capsys, names, "--set", "llm.backoff_seconds=0.001", "--set", "llm.outage_seconds=0.1")
        assert good.num_requests == 12
