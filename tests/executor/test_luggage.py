"""A task's files on another machine: used where they lie there already, else unpacked; answers name those of home."""

import functools
import shutil
import tempfile

import pytest

from atoll import errors, sandbox
from atoll.executor import ray as fleets
from atoll.executor.ray import task_files
from atoll.executor.ray.actor import ActorConfig, EvaluationActor
from atoll.executor.ray.task_files import ExtractedFiles, TaskFiles
from atoll.sandbox import job_pickle, score_job

TASK = """
from beside import OFFSET

inputs = [1.0]


def evaluate(function, x):
    if function(x) < 0:
        raise ValueError("below nothing")
    return function(x) + OFFSET
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "task.py").write_text(TASK)
    (folder / "beside.py").write_text("OFFSET = 10.0\n")
    (folder / ".hidden").write_text("a secret")
    return folder


def test_what_lies_on_the_node_already_is_used_as_it_is(task):
    packed = TaskFiles.from_paths([str(task)])
    there = ExtractedFiles(packed, packed.pack())
    assert there.roots == [str(task)]
    (task / "beside.py").write_text("OFFSET = 11.0\n")
    assert ExtractedFiles(packed, packed.pack()).roots != [str(task)]


def test_what_is_not_there_is_unpacked_once(task):
    packed = TaskFiles.from_paths([str(task), str(task / "task.py")])
    assert len(packed.files) == 1
    body = packed.pack()
    shutil.rmtree(task)
    (root,) = ExtractedFiles(packed, body).roots
    assert (root, ExtractedFiles(packed, body).resolve((0, "/beside.py"))) == (root, f"{root}/beside.py")
    with open(f"{root}/beside.py", encoding="utf-8") as file:
        assert file.read() == "OFFSET = 10.0\n"
    with pytest.raises(FileNotFoundError):
        open(f"{root}/.hidden")  # noqa: SIM115


def test_a_single_file_travels_too(task):
    packed = TaskFiles.from_paths([str(task / "beside.py")])
    body = packed.pack()
    (task / "beside.py").unlink()
    (root,) = ExtractedFiles(packed, body).roots
    with open(root, encoding="utf-8") as file:
        assert file.read() == "OFFSET = 10.0\n"


def test_too_much_is_refused_with_what_to_do(task, monkeypatch):
    monkeypatch.setattr(task_files, "MOST_BYTES", 20)
    with pytest.raises(errors.SetupError, match="put the data where all nodes see it under the same path"):
        TaskFiles.from_paths([str(task)])


def test_a_seat_far_from_home_judges_as_at_home(task):
    packed = TaskFiles.from_paths([str(task)])
    job = functools.partial(score_job.load_score_job, str(task / "task.py"), "evaluate", "inputs")
    order = ActorConfig(
        sandbox.Limits(seconds=60.0), None, True, True, sandbox.Permissions(read_paths=(str(task),)), packed
    )
    sent, body, home = job_pickle.pack_job(job, packed.locate), packed.pack(), str(task)
    shutil.rmtree(task)
    seat = EvaluationActor(order, sent, body, "node")
    try:
        assert seat.open() == (None, "L0", "node")
        assert seat.run(1, '"def f(x):\\n    return x"').value == [{"score": 11.0}]
        answer = seat.run(2, '"def f(x):\\n    return -x"')
        told = f"{answer.failure} {answer.output} {answer.value}"
        assert "below nothing" in told
        assert "atoll-luggage" not in told
        assert home in told or "task.py" not in told
    finally:
        seat.close()


def test_a_tally_says_what_was_lost():
    tally = fleets.RayStats()
    tally.count(evaluations=2000, again=3, seats_lost=4)
    tally.record_dead_node("node")
    tally.record_dead_node("node")
    assert str(tally) == "2,000 evaluations on the cluster, 3 sent again, 4 seats lost, 1 nodes lost"
