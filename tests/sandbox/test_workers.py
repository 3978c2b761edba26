"""Which workers there are, and what a request finds in one."""

import os
import sys
import time

import pytest

from atoll import errors, sandbox
from atoll.sandbox import Limits, ProcessSandbox
from tests.sandbox.boxes import LIMITS, pid_of, programs, value

LINKS = """
import os
answer = []
for fd in range(256):
    try: answer.append(os.readlink(f"/proc/self/fd/{fd}"))
    except OSError: pass
"""


def test_a_worker_starts_quickly_and_loads_nothing_of_atoll(workers):
    names = value(workers, "import sys; answer = list(sys.modules)")
    assert not {"atoll", "numpy", "sqlalchemy", "pydantic", "typer", "socket"} & set(names)

    def seconds():
        start = time.perf_counter()
        with ProcessSandbox(programs, LIMITS) as fresh:
            fresh.warm()
            return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 3.0  # 0.06 s on a quiet machine


def test_scoring_loads_no_heavy_library():
    with ProcessSandbox(lambda: sandbox.ScoreJob(lambda *_: str(list(sys.modules)), [1])) as made:  # type: ignore[arg-type]
        names = str(made.run("").value)
    assert "'atoll.function'" in names
    assert not [name for name in ("numpy", "sqlalchemy", "pydantic", "typer", "rich") if f"'{name}'" in names]


def test_a_worker_is_kept_for_the_next_request(workers):
    first = pid_of(workers)
    workers.run("raise ValueError")
    workers.run("answer = set()")
    assert {pid_of(workers) for _ in range(5)} == {first}


def test_no_more_workers_start_than_are_needed_at_once():
    with ProcessSandbox(programs, LIMITS, num_workers=4) as made:
        assert len({pid_of(made) for _ in range(8)}) == 1


def test_ctrl_c_on_the_terminal_does_not_reach_a_worker(workers):
    assert value(workers, "import os; answer = os.getsid(0) == os.getpid() == os.getpgrp()")


def test_a_worker_has_the_environment_that_it_needs_and_no_more(workers):
    found = value(workers, "import os; answer = dict(os.environ)")
    fixed = "PYTHONHASHSEED PYTHONWARNINGS OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS MALLOC_ARENA_MAX"
    allowed = {*fixed.split(), "HOME", "TMPDIR", "PATH", "LANG", "LD_LIBRARY_PATH"}
    assert {name for name in found if not name.startswith("LC_")} <= allowed
    assert found["HOME"] == found["TMPDIR"] != os.environ.get("HOME")


def test_a_worker_inherits_no_descriptor(workers, temp_dir):
    with open(temp_dir / "extra", "w") as extra:
        os.set_inheritable(extra.fileno(), True)
        links = value(workers, LINKS)
    (temp_dir / "extra").unlink()
    kinds = sorted("file" if link.startswith(str(temp_dir)) else link.partition(":")[0] for link in links)
    # Nothing to read, what is printed, a copy of both; the line to the parent, and what tells that it died.
    assert kinds == ["/dev/null", "/dev/null", "file", "file", "file", "pipe", "socket"], links


def test_texts_hash_alike_in_every_worker(workers):
    first = value(workers, "answer = hash('a text')")
    workers.run("import os; os._exit(1)")
    assert value(workers, "answer = hash('a text')") == first


def test_every_request_starts_in_an_empty_folder(workers):
    assert value(workers, "open('left', 'w').close(); import os; answer = os.listdir()") == ["left"]
    assert value(workers, "import os; answer = os.listdir()") == []


@pytest.mark.parametrize("instead", ["pass", "open(here, 'w').close()", "os.symlink('/', here)"])
def test_a_folder_that_was_spoilt_is_nobody_elses_trouble(workers, instead):
    value(workers, f"import os\nhere = os.getcwd()\nos.rmdir(here)\n{instead}")
    assert value(workers, "open('left', 'w').close(); import os; answer = os.listdir()") == ["left"]


def test_what_making_the_job_prints_is_no_candidates_output():
    def make():
        print("loading")
        return lambda _: None

    with ProcessSandbox(make, LIMITS) as made:
        assert made.run(None).output == ""


def test_a_large_request_and_a_large_answer_pass():
    with ProcessSandbox(lambda: lambda request: request, Limits(output_bytes=6_000_000)) as made:
        text = "x" * 5_000_000
        assert made.run(text).value == text


def test_a_request_that_is_no_plain_data_is_a_failure(workers):
    answer = workers.run({1, 2})
    assert answer.failure == "the request is no plain data: Object of type set is not JSON serializable"


def test_numpy_loads_and_works_within_the_limit():
    def make():
        import numpy as np

        return lambda n: float(np.linalg.norm(np.ones((n, n))))

    with ProcessSandbox(make, Limits(memory_mb=256)) as made:
        assert made.run(100).value == pytest.approx(100.0)
        assert made.run(10_000).failure == "it used more than 256 MiB"
        assert made.run(100).value == pytest.approx(100.0)


@pytest.mark.parametrize(
    "options",
    [
        {"limits": Limits(seconds=0)},
        {"limits": Limits(seconds=float("nan"))},
        {"limits": Limits(memory_mb=-1)},
        {"num_workers": 0},
    ],
    ids=["no time", "no number", "no memory", "no worker"],
)
def test_limits_that_make_no_sense_are_refused(options):
    with pytest.raises(errors.SetupError, match="give a number above 0"):
        ProcessSandbox(programs, **options)


def test_a_limit_may_be_left_out():
    with ProcessSandbox(programs, Limits(seconds=float("inf"), memory_mb=None)) as made:
        assert value(made, "answer = 7") == 7
        assert made.run("raise MemoryError('too much')").failure == "it raised MemoryError: too much"
