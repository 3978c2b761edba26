"""Sessions: resumed limits, file hashes, stopping."""

import time
from pathlib import Path

import pytest

from atoll import config, llm, runs, store
from atoll.runs import run_llm
from atoll.runs.limits import hash_files
from tests.cli import tasks


@pytest.fixture
def run_store(tmp_path):
    tasks.make(tmp_path / "task")
    with store.Store(tmp_path / "atoll.db") as run_store:
        yield run_store


def steps(run_store: store.Store, run: str) -> int:
    return runs.compute_totals(run_store, run).steps


def test_hash_files_distinguishes_folders(tmp_path):
    paths = [tmp_path / "a" / "x.json", tmp_path / "b" / "x.json"]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    result = hash_files(paths)
    assert list(result) == ["a/x.json", "b/x.json"]
    paths[0].write_text("changed")
    assert hash_files(paths) != result
    assert list(hash_files(paths[:1])) == ["x.json"]


def test_resume_after_crash_keeps_limits_of_last_resume(run_store, tmp_path):
    plan = config.load(tmp_path / "task", [{"run": {"iterations": 3}}])
    with runs.Session(run_store, plan) as session:
        session.run()
    with runs.resume(run_store, session.run_id, [{"run": {"iterations": 4}}]):
        pass  # as one that is killed right after its start
    assert steps(run_store, session.run_id) == 3
    with runs.resume(run_store, session.run_id) as again:
        again.run()
    assert steps(run_store, session.run_id) == 7


def test_run_waiting_for_mailbox_can_be_stopped(run_store, tmp_path):
    plan = config.load(tmp_path / "task", [{"run": {"iterations": 3, "llm": f"mailbox:{tmp_path}/box"}}])
    with runs.Session(run_store, plan) as session:
        session.evolver.start()
        while not any(Path(tmp_path / "box").glob("*.prompt.md")):
            time.sleep(0.05)
        session.evolver.stop("stopped")
    assert steps(run_store, session.run_id) > 0
    assert not list(run_store.journal(session.run_id).read_kinds("applied"))  # repeated on resume


def test_failure_limit_reports_outage_to_later_calls():
    def model(prompt: str) -> llm.Response:
        raise llm.LLMError("gone", is_down=True)

    patient = run_llm.LLMFailureLimit(model)
    for _ in range(2):
        with pytest.raises(llm.LLMError) as raised:
            patient("hi")
        assert raised.value.is_down
