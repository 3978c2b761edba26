"""A task's files on another machine: used where they lie there already, else unpacked; answers name those of home."""

import functools
import shutil
import tempfile

import pytest

from atoll import errors, sandbox
from atoll.executor import ray as fleets
from atoll.executor.ray import luggage
from atoll.executor.ray.luggage import Luggage, Unpacked
from atoll.executor.ray.seat import Order, Seat
from atoll.sandbox import files, parcel

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
    packed = Luggage.of([str(task)])
    there = Unpacked(packed, packed.packed())
    assert there.roots == [str(task)]
    (task / "beside.py").write_text("OFFSET = 11.0\n")
    assert Unpacked(packed, packed.packed()).roots != [str(task)]


def test_what_is_not_there_is_unpacked_once(task):
    packed = Luggage.of([str(task), str(task / "task.py")])
    assert len(packed.pieces) == 1
    body = packed.packed()
    shutil.rmtree(task)
    (root,) = Unpacked(packed, body).roots
    assert (root, Unpacked(packed, body).path((0, "/beside.py"))) == (root, f"{root}/beside.py")
    with open(f"{root}/beside.py", encoding="utf-8") as file:
        assert file.read() == "OFFSET = 10.0\n"
    with pytest.raises(FileNotFoundError):
        open(f"{root}/.hidden")  # noqa: SIM115


def test_a_single_file_travels_too(task):
    packed = Luggage.of([str(task / "beside.py")])
    body = packed.packed()
    (task / "beside.py").unlink()
    (root,) = Unpacked(packed, body).roots
    with open(root, encoding="utf-8") as file:
        assert file.read() == "OFFSET = 10.0\n"


def test_too_much_is_refused_with_what_to_do(task, monkeypatch):
    monkeypatch.setattr(luggage, "MOST_BYTES", 20)
    with pytest.raises(errors.SetupError, match="put the data where all nodes see it under the same path"):
        Luggage.of([str(task)])


def test_a_seat_far_from_home_judges_as_at_home(task):
    packed = Luggage.of([str(task)])
    job = functools.partial(files.score_file, str(task / "task.py"), "evaluate", "inputs")
    order = Order(sandbox.Limits(seconds=60.0), None, True, True, sandbox.Profile(reads=(str(task),)), packed)
    sent, body, home = parcel.pack(job, packed.place_of), packed.packed(), str(task)
    shutil.rmtree(task)
    seat = Seat(order, sent, body, "node")
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
    tally = fleets.Tally()
    tally.count(evaluations=2000, again=3, seats_lost=4)
    tally.mourn("node")
    tally.mourn("node")
    assert str(tally) == "2,000 evaluations on the cluster, 3 sent again, 4 seats lost, 1 nodes lost"
