"""`ProcessSandbox`: number, environment and limits of workers."""

import os
import sys
import time

import pytest

from atoll import errors, sandbox
from atoll.sandbox import Limits, ProcessSandbox
from tests.sandbox.helpers import LIMITS, get_pid, make_program_job, run_program

LINKS = """
import os
answer = []
for fd in range(4096):
    try: answer.append(os.readlink(f"/proc/self/fd/{fd}"))
    except OSError: pass
"""


def test_worker_starts_fast_and_does_not_import_atoll(workers):
    names = run_program(workers, "import sys; answer = list(sys.modules)")
    assert not {"atoll", "numpy", "sqlalchemy", "pydantic", "typer", "socket"} & set(names)

    def seconds():
        start = time.perf_counter()
        with ProcessSandbox(make_program_job, LIMITS) as fresh:
            fresh.warm()
            return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 3.0  # 0.06 s on an idle machine


def test_score_job_imports_no_heavy_library():
    with ProcessSandbox(lambda: sandbox.ScoreJob(lambda *_: str(list(sys.modules)), [1])) as box:  # type: ignore[arg-type]
        names = str(box.run("").value)
    assert "'atoll.function'" in names
    assert not [name for name in ("numpy", "sqlalchemy", "pydantic", "typer", "rich") if f"'{name}'" in names]


def test_worker_is_reused(workers):
    first = get_pid(workers)
    workers.run("raise ValueError")
    workers.run("answer = set()")
    assert {get_pid(workers) for _ in range(5)} == {first}


def test_workers_start_on_demand():
    with ProcessSandbox(make_program_job, LIMITS, num_workers=4) as box:
        assert len({get_pid(box) for _ in range(8)}) == 1


def test_worker_has_its_own_session(workers):
    assert run_program(workers, "import os; answer = os.getsid(0) == os.getpid() == os.getpgrp()")


def test_worker_environment_is_minimal(workers):
    result = run_program(workers, "import os; answer = dict(os.environ)")
    fixed = "PYTHONHASHSEED PYTHONWARNINGS OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS MALLOC_ARENA_MAX"
    allowed = {*fixed.split(), "HOME", "TMPDIR", "PATH", "LANG", "LD_LIBRARY_PATH", "LD_BIND_NOW"}
    assert {name for name in result if not name.startswith("LC_")} <= allowed
    assert result["HOME"] == result["TMPDIR"] != os.environ.get("HOME")


def test_worker_inherits_no_descriptor(workers, temp_dir):
    with open(temp_dir / "extra", "w") as extra:
        os.set_inheritable(extra.fileno(), True)
        links = run_program(workers, LINKS)
    (temp_dir / "extra").unlink()
    kinds = sorted("file" if link.startswith(str(temp_dir)) else link.partition(":")[0] for link in links)
    # stdin, stdout, stderr and private copies; the channel to the parent, and the liveness pipe.
    assert kinds == ["/dev/null", "/dev/null", "file", "file", "file", "pipe", "socket"], links


def test_string_hashes_are_equal_in_all_workers(workers):
    first = run_program(workers, "answer = hash('a text')")
    workers.run("import os; os._exit(1)")
    assert run_program(workers, "answer = hash('a text')") == first


def test_every_request_starts_in_an_empty_folder(workers):
    assert run_program(workers, "open('left', 'w').close(); import os; answer = os.listdir()") == ["left"]
    assert run_program(workers, "import os; answer = os.listdir()") == []


@pytest.mark.parametrize("instead", ["pass", "open(here, 'w').close()", "os.symlink('/', here)"])
def test_destroyed_scratch_folder_is_replaced(workers, instead):
    run_program(workers, f"import os\nhere = os.getcwd()\nos.rmdir(here)\n{instead}")
    assert run_program(workers, "open('left', 'w').close(); import os; answer = os.listdir()") == ["left"]


def test_output_of_the_job_creation_is_dropped():
    def make():
        print("loading")
        return lambda _: None

    with ProcessSandbox(make, LIMITS) as box:
        assert box.run(None).output == ""


def test_large_request_and_result():
    with ProcessSandbox(lambda: lambda request: request, Limits(output_bytes=6_000_000)) as box:
        text = "x" * 5_000_000
        assert box.run(text).value == text


def test_request_that_is_not_plain_data_fails(workers):
    result = workers.run({1, 2})
    assert result.failure == "the request is not plain data: Object of type set is not JSON serializable"


def test_numpy_works_within_the_memory_limit():
    def make():
        import numpy as np

        return lambda n: float(np.linalg.norm(np.ones((n, n))))

    with ProcessSandbox(make, Limits(memory_mb=256)) as box:
        assert box.run(100).value == pytest.approx(100.0)
        assert box.run(10_000).failure == "it used more than 256 MiB"
        assert box.run(100).value == pytest.approx(100.0)


@pytest.mark.parametrize(
    "options",
    [
        {"limits": Limits(seconds=0)},
        {"limits": Limits(seconds=float("nan"))},
        {"limits": Limits(memory_mb=-1)},
        {"num_workers": 0},
    ],
    ids=["zero time", "nan", "negative memory", "zero workers"],
)
def test_invalid_limits_are_rejected(options):
    with pytest.raises(errors.SetupError, match="Use a number above 0"):
        ProcessSandbox(make_program_job, **options)


def test_limits_can_be_disabled():
    with ProcessSandbox(make_program_job, Limits(seconds=float("inf"), memory_mb=None)) as box:
        assert run_program(box, "answer = 7") == 7
        assert box.run("raise MemoryError('too much')").failure == "it raised MemoryError: too much"
