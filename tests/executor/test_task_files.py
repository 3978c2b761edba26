"""Task files on another machine: used in place or extracted; results name the original paths."""

import functools
import shutil
import tempfile

import pytest

from atoll import errors, sandbox
from atoll.executor import ray
from atoll.executor.ray import task_files
from atoll.executor.ray.actor_pool import ActorConfig, EvaluationActor
from atoll.executor.ray.task_files import ExtractedFiles, TaskFiles
from atoll.sandbox import job_pickle, score_job

TASK = """
from neighbor import OFFSET

inputs = [1.0]


def evaluate(function, x):
    if function(x) < 0:
        raise ValueError("negative")
    return function(x) + OFFSET
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "task"
    folder.mkdir()
    (folder / "task.py").write_text(TASK)
    (folder / "neighbor.py").write_text("OFFSET = 10.0\n")
    (folder / ".hidden").write_text("a secret")
    return folder


def test_same_files_on_the_node_are_used_in_place(task):
    packed = TaskFiles.from_paths([str(task)])
    extracted = ExtractedFiles(packed, packed.pack())
    assert extracted.roots == [str(task)]
    (task / "neighbor.py").write_text("OFFSET = 11.0\n")
    assert ExtractedFiles(packed, packed.pack()).roots != [str(task)]


def test_missing_files_are_extracted(task):
    packed = TaskFiles.from_paths([str(task), str(task / "task.py")])
    assert len(packed.files) == 1
    body = packed.pack()
    shutil.rmtree(task)
    (root,) = ExtractedFiles(packed, body).roots
    assert (root, ExtractedFiles(packed, body).resolve((0, "/neighbor.py"))) == (root, f"{root}/neighbor.py")
    with open(f"{root}/neighbor.py", encoding="utf-8") as file:
        assert file.read() == "OFFSET = 10.0\n"
    with pytest.raises(FileNotFoundError):
        open(f"{root}/.hidden")  # noqa: SIM115


def test_single_file_is_sent(task):
    packed = TaskFiles.from_paths([str(task / "neighbor.py")])
    body = packed.pack()
    (task / "neighbor.py").unlink()
    (root,) = ExtractedFiles(packed, body).roots
    with open(root, encoding="utf-8") as file:
        assert file.read() == "OFFSET = 10.0\n"


def test_too_large_files_are_rejected(task, monkeypatch):
    monkeypatch.setattr(task_files, "MAX_BYTES", 20)
    with pytest.raises(errors.SetupError, match="Put the data in another folder that all nodes see"):
        TaskFiles.from_paths([str(task)])


def test_actor_on_another_machine_gives_the_same_results(task):
    packed = TaskFiles.from_paths([str(task)])
    job = functools.partial(score_job.load_score_job, str(task / "task.py"), "evaluate", "inputs")
    actor_config = ActorConfig(
        sandbox.Limits(seconds=60.0), None, True, True, sandbox.Permissions(read_paths=(str(task),)), packed
    )
    sent, body, home = job_pickle.pack_job(job, packed.locate), packed.pack(), str(task)
    shutil.rmtree(task)
    actor = EvaluationActor(actor_config, sent, body, "node")
    try:
        assert actor.open() == (None, "L0", "node")
        assert actor.run('"def f(x):\\n    return x"').value == [{"score": 11.0}]
        result = actor.run('"def f(x):\\n    return -x"')
        message = f"{result.failure} {result.output} {result.value}"
        assert "negative" in message
        assert "atoll-files" not in message
        assert home in message or "task.py" not in message
    finally:
        actor.close()


def test_ray_stats_as_text():
    stats = ray.RayStats()
    stats.count(evaluations=2000, again=3, seats_lost=4)
    stats.record_dead_node("node")
    stats.record_dead_node("node")
    assert str(stats) == "2,000 evaluations on the cluster, 3 sent again, 4 actors lost, 1 nodes lost"
