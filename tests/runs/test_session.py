"""What a run goes on with: its files, and the limits that it was last given."""

import time
from pathlib import Path

import pytest

from atoll import config, llm, runs, store
from atoll.runs import run_llm
from atoll.runs.limits import hash_files
from tests.cli import tasks


@pytest.fixture
def kept(tmp_path):
    tasks.make(tmp_path / "task")
    with store.Store(tmp_path / "atoll.db") as kept:
        yield kept


def steps(kept: store.Store, run: str) -> int:
    return runs.compute_totals(kept, run).steps


def test_files_of_the_same_name_in_two_folders_are_two_files(tmp_path):
    paths = [tmp_path / "a" / "x.json", tmp_path / "b" / "x.json"]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    found = hash_files(paths)
    assert list(found) == ["a/x.json", "b/x.json"]
    paths[0].write_text("changed")
    assert hash_files(paths) != found
    assert list(hash_files(paths[:1])) == ["x.json"]


def test_a_resume_that_was_cut_goes_on_to_its_own_limits(kept, tmp_path):
    plan = config.load(tmp_path / "task", [{"run": {"iterations": 3}}])
    with runs.Session(kept, plan) as session:
        session.run()
    with runs.resume(kept, session.run_id, [{"run": {"iterations": 4}}]):
        pass  # as one that is killed right after its start
    assert steps(kept, session.run_id) == 3
    with runs.resume(kept, session.run_id) as again:
        again.run()
    assert steps(kept, session.run_id) == 7


def test_a_run_that_asks_a_mailbox_can_be_stopped(kept, tmp_path):
    plan = config.load(tmp_path / "task", [{"run": {"iterations": 3, "llm": f"mailbox:{tmp_path}/box"}}])
    with runs.Session(kept, plan) as session:
        session.evolver.start()
        while not any(Path(tmp_path / "box").glob("*.prompt.md")):
            time.sleep(0.05)
        session.evolver.stop("stopped")
    assert steps(kept, session.run_id) > 0
    assert not list(kept.journal(session.run_id).read_kinds("applied"))  # they are asked again when it goes on


def test_an_outage_that_ends_a_run_says_so_to_whoever_asks_then():
    def model(prompt: str) -> llm.Response:
        raise llm.LLMError("gone", is_down=True)

    patient = run_llm.LLMFailureLimit(model)
    for _ in range(2):
        with pytest.raises(llm.LLMError) as raised:
            patient("hi")
        assert raised.value.is_down
