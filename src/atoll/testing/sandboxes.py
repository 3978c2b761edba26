"""Test suites for sandboxes and executors."""

import contextlib
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

from atoll import errors, executor, sandbox
from atoll.sandbox import Limits, SandboxResult
from atoll.testing import fakes

LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000)

# Program of a candidate -> beginning of the failure.
_FAILURES = {
    "raise ValueError('no luck')": "it raised ValueError: no luck",
    "import sys; sys.exit(3)": "it raised SystemExit: 3",
    "raise KeyboardInterrupt": "it raised KeyboardInterrupt",
    "def f(): return f()\nf()": "it raised RecursionError",
    "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd": "it raised Odd",
    "no python = here": "it raised SyntaxError",
    "answer = {1, 2}": "it returned data that is not plain JSON: set",
    "answer = [object()]": "it returned data that is not plain JSON: object",
    "answer = 10 ** 5000": "it returned data that is not plain JSON",
    "answer = []\nanswer.append(answer)": "it returned data that is not plain JSON",
    "answer = 'x' * 12_300_000": "it returned 12.3 MB, more than 10 kB",
    "import os; os._exit(3)": "it left its process with exit status 3",
    "import os; os._exit(0)": "it left its process with exit status 0",
    "import ctypes; ctypes.string_at(0)": "its process died with signal 11 (SIGSEGV)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "its process died with signal 9 (SIGKILL)",
}


def get_job_maker() -> sandbox.MakeJob:
    """Returns the maker of a job that runs a Python program and returns its variable `answer`.

    It is a nested function, so that it is pickled by value and workers do not import `atoll.testing`.
    """

    def make_job() -> Any:
        def run(program: str) -> Any:
            namespace: dict[str, Any] = {}
            exec(program, namespace)
            return namespace.get("answer")

        return run

    return make_job


class SandboxSuite(ABC):
    """Tests for a sandbox. Subclass it and implement `make`.

    Attributes:
        starts_programs: Whether candidates may start programs.
    """

    starts_programs = True

    @abstractmethod
    def make(self, make_job: sandbox.MakeJob, limits: Limits, num_workers: int) -> sandbox.Sandbox:
        """Returns a new sandbox; the tests close it."""

    @contextlib.contextmanager
    def open_sandbox(self, limits: Limits = LIMITS, num_workers: int = 1) -> Iterator[sandbox.Sandbox]:
        """Opens a sandbox that runs Python programs; fails if a process is left after it is closed."""
        old_children = list_children()
        opened_sandbox = self.make(get_job_maker(), limits, num_workers)
        try:
            yield opened_sandbox
        finally:
            opened_sandbox.close()
        assert list_children() <= old_children, "a process is left"

    def test_level_is_known(self) -> None:
        """The level is L0, L1, L2 or L3."""
        with self.open_sandbox() as opened_sandbox:
            assert opened_sandbox.level in ("L0", "L1", "L2", "L3")

    def test_plain_data_round_trips(self) -> None:
        """JSON values round-trip, and NaN and infinity too."""
        with self.open_sandbox() as opened_sandbox:
            for value in (None, True, -3, 1.5, "a\nb \u00e9 \ud800", [1, [2.5, "x"]], {"a": {"b": [None]}}):
                assert _run_program(opened_sandbox, f"answer = {value!r}") == value
            assert _run_program(opened_sandbox, "answer = (1, 2)") == [1, 2]
            assert str(_run_program(opened_sandbox, "answer = [float('nan'), float('-inf')]")) == "[nan, -inf]"

    def test_result_has_output_and_duration(self) -> None:
        """Output has both streams, also of children, and nothing of earlier requests."""
        with self.open_sandbox() as opened_sandbox:
            program = "import os, sys, time\nprint('one')\nprint('two', file=sys.stderr)\n"
            program += "os.system('echo three')" if self.starts_programs else "os.write(2, b'three')"
            result = opened_sandbox.run(f"{program}\ntime.sleep(0.1)")
            assert result.output.split() == ["one", "two", "three"]
            assert 0.1 <= result.seconds < 10
            assert opened_sandbox.run("answer = 1").output == ""

    def test_output_has_traceback(self) -> None:
        """The traceback with the failing line follows the printed output."""
        with self.open_sandbox() as opened_sandbox:
            result = opened_sandbox.run("print('so far')\n1 / 0")
            assert result.output.startswith("so far")
            assert "line 2" in result.output
            assert result.output.rstrip().endswith("ZeroDivisionError: division by zero")

    def test_failing_candidate_does_not_affect_the_next(self) -> None:
        """Each failure has its own message, and the next request succeeds."""
        with self.open_sandbox() as opened_sandbox:
            for program, failure in _FAILURES.items():
                result = opened_sandbox.run(program)
                assert result.value is None
                assert (result.failure or "").startswith(failure), f"{program}: {result.failure}"
                assert _run_program(opened_sandbox, "answer = 7") == 7

    def test_time_limit_kills_candidate(self) -> None:
        """The limit holds for sleep, loops and long C calls; earlier output is kept."""
        with self.open_sandbox(Limits(seconds=0.5, memory_mb=512)) as opened_sandbox:
            for program in ("import time; time.sleep(60)", "while True: pass", "sum(range(10**12))"):
                result = opened_sandbox.run(f"print('here')\n{program}")
                assert result.failure == "it took longer than 0.5 s"
                assert result.output.startswith("here\n")
                assert 0.5 <= result.seconds < 5
                assert _run_program(opened_sandbox, "answer = 7") == 7

    def test_memory_limit_fails_candidate(self) -> None:
        """The limit holds for one large and many small allocations."""
        with self.open_sandbox() as opened_sandbox:
            for program in ("x = bytearray(2**30)", "x = []\nwhile True: x.append(bytes(2**20))"):
                assert opened_sandbox.run(program).failure == "it used more than 512 MiB"
                assert _run_program(opened_sandbox, "answer = 7") == 7

    def test_long_output_is_truncated_to_its_end(self) -> None:
        """A candidate that prints 100 MB does not fail."""
        with self.open_sandbox() as opened_sandbox:
            result = opened_sandbox.run("for _ in range(100): print('x' * 10**6)\nprint('the end')\nanswer = 1")
            assert result.value == 1, result.failure
            assert result.output.endswith("x\nthe end\n")
            assert len(result.output) <= LIMITS.output_bytes

    def test_printing_cannot_forge_result(self) -> None:
        """Text on the streams is only output."""
        with self.open_sandbox() as opened_sandbox:
            forged = (
                "import os, sys\nprint('{\"value\": 99}')\nos.write(1, bytes(16) + bytes(7) + b'\\x0f[null,false,99]')"
            )
            for program in (forged, "import sys; sys.stdout.close()", "import os; os.close(1); os.close(2)"):
                assert _run_program(opened_sandbox, f"{program}\nanswer = 7") == 7
            assert opened_sandbox.run("print('still here')").output == "still here\n"

    def test_writing_to_all_descriptors_does_not_affect_the_next(self) -> None:
        """The candidate may lose its own result; the next candidate gets the right one."""
        with self.open_sandbox() as opened_sandbox:
            write = "try: os.write(fd, b'\\xff' * 100)\n    except OSError: pass"
            opened_sandbox.run(f"import os\nfor fd in range(256):\n    {write}")
            assert _run_program(opened_sandbox, "answer = 7") == 7
            opened_sandbox.run("import os; os.closerange(0, 256)")
            assert _run_program(opened_sandbox, "answer = 7") == 7

    def test_stdin_is_empty(self) -> None:
        """Reading standard input returns at once."""
        with self.open_sandbox() as opened_sandbox:
            assert _run_program(opened_sandbox, "import os; answer = os.read(0, 10).decode()") == ""

    def test_environment_secrets_are_hidden(self) -> None:
        """Candidates cannot read API keys of the user."""
        os.environ["ATOLL_TEST_API_KEY"] = "a secret"
        try:
            with self.open_sandbox() as opened_sandbox:
                program = "import os; answer = [*os.environ.keys(), *os.environ.values()]"
                environment = _run_program(opened_sandbox, program)
                assert "ATOLL_TEST_API_KEY" not in environment
                assert "a secret" not in environment
        finally:
            del os.environ["ATOLL_TEST_API_KEY"]

    def test_forked_child_returns_no_result(self) -> None:
        """Each request has one result, and the next request is read once."""
        with self.open_sandbox() as opened_sandbox:
            for _ in range(3):
                opened_sandbox.run("import os; answer = os.fork()")
                assert _run_program(opened_sandbox, "answer = 7") == 7

    def test_sandbox_is_thread_safe(self) -> None:
        """Each thread gets its own results, with more threads than workers and some failures."""
        with self.open_sandbox(num_workers=2) as opened_sandbox:

            def run_programs(index: int) -> list[Any]:
                opened_sandbox.run("raise ValueError" if index % 2 else "import os; os._exit(1)")
                return [_run_program(opened_sandbox, f"answer = {index * 100 + offset}") for offset in range(5)]

            expected = [[index * 100 + offset for offset in range(5)] for index in range(6)]
            assert fakes.run_concurrently(run_programs, 6) == expected

    def test_two_workers_run_in_parallel(self) -> None:
        """A slow candidate does not delay the others."""
        with self.open_sandbox(num_workers=2) as opened_sandbox:
            slow_thread = Thread(target=opened_sandbox.run, args=("import time; time.sleep(60)",))
            slow_thread.start()
            assert _run_program(opened_sandbox, "answer = 7") == 7
            assert slow_thread.is_alive()
            opened_sandbox.close()
            slow_thread.join(10)
            assert not slow_thread.is_alive()

    def test_close_fails_running_and_waiting_requests(self) -> None:
        """Running, waiting and later requests fail."""
        with self.open_sandbox() as opened_sandbox:
            assert _run_program(opened_sandbox, "answer = 7") == 7
            results: list[SandboxResult] = []
            sleep = "import time; time.sleep(60)"
            threads = [Thread(target=lambda: results.append(opened_sandbox.run(sleep))) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.2)
            opened_sandbox.close()
            for thread in threads:
                thread.join(10)
            assert [result.failure is not None for result in results] == [True] * 3
            assert opened_sandbox.run("answer = 7").failure is not None

    def test_second_close_does_nothing(self) -> None:
        """Closing an unused sandbox does nothing either."""
        with self.open_sandbox() as opened_sandbox:
            opened_sandbox.close()
            opened_sandbox.close()

    def test_job_that_cannot_be_made_raises_setup_error(self) -> None:
        """The error names the cause; candidates do not fail instead."""

        def make_broken_job() -> Any:
            raise FileNotFoundError("data.csv is not there")

        old_children = list_children()
        with fakes.raises(errors.SetupError) as caught:
            opened_sandbox = self.make(make_broken_job, LIMITS, 1)
            try:
                opened_sandbox.run("answer = 7")
            finally:
                opened_sandbox.close()
        assert "FileNotFoundError: data.csv is not there" in str(caught[0])
        assert list_children() <= old_children

    def test_worker_killed_between_requests_is_replaced(self) -> None:
        """No candidate caused it, so none fails."""
        with self.open_sandbox() as opened_sandbox:
            pid = _run_program(opened_sandbox, "import os; answer = os.getpid()")
            if pid in list_children():  # a sandbox may have its own process ids
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)
            assert _run_program(opened_sandbox, "answer = 7") == 7


def _run_program(opened_sandbox: sandbox.Sandbox, program: str) -> Any:
    result = opened_sandbox.run(program)
    assert result.failure is None, f"{program}: {result.failure}\n{result.output}"
    return result.value


def list_children() -> set[int]:
    """Returns the process ids of child processes, including zombies; empty on other systems than Linux."""
    if not sys.platform.startswith("linux"):
        return set()
    pids = set()
    for thread_id in os.listdir("/proc/self/task"):
        # A thread may end before its file is read.
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/self/task/{thread_id}/children") as file,
        ):
            pids |= {int(pid) for pid in file.read().split()}
    return pids


class ExecutorSuite(ABC):
    """Tests for an executor. Subclass it and implement `make`.

    An executor is also a sandbox; `SandboxSuite` tests single requests.
    """

    @abstractmethod
    def make(self, make_job: sandbox.MakeJob, limits: Limits, num_workers: int) -> executor.Executor:
        """Returns a new executor with `num_workers` slots; the tests close it."""

    def make_program_executor(self, num_slots: int = 1, limits: Limits = LIMITS) -> executor.Executor:
        """Returns an executor that runs Python programs; the tests close it."""
        return self.make(get_job_maker(), limits, num_slots)

    def test_num_slots_is_reported(self) -> None:
        """`num_slots` is the number passed to `make`."""
        pool = self.make_program_executor(num_slots=3)
        pool.close()
        assert pool.num_slots == 3

    def test_each_request_gets_its_own_result(self) -> None:
        """Parallel requests end in any order."""
        pool = self.make_program_executor(num_slots=2)
        try:
            results = _run_in_parallel(pool, [f"answer = {index}" for index in range(20)])
            assert [result.value for result in results] == list(range(20))
        finally:
            pool.close()

    def test_candidate_that_kills_its_slot_fails_once(self) -> None:
        """Each such candidate costs one slot; the next request gets a new one."""
        pool = self.make_program_executor(num_slots=2)
        try:
            results = _run_in_parallel(pool, ["import os; os._exit(9)"] * 6 + ["answer = 1"] * 6)
            assert ["exit status 9" in (result.failure or "") for result in results[:6]] == [True] * 6
            assert [result.value for result in results[6:]] == [1] * 6
        finally:
            pool.close()

    def test_close_fails_all_requests_and_leaves_no_process(self) -> None:
        """Running, waiting and later requests fail; no process is left."""
        old_children = list_children()
        pool = self.make_program_executor(limits=Limits(seconds=120.0, memory_mb=512))
        with ThreadPoolExecutor(5) as threads:
            futures = [threads.submit(pool.run, "import time; time.sleep(100)") for _ in range(5)]
            time.sleep(0.5)
            pool.close()
            results = [future.result(60) for future in futures]
        assert {result.failure for result in results} == {"the sandbox was closed"}
        assert pool.run("answer = 1").failure == "the sandbox was closed"
        pool.close()
        assert list_children() <= old_children

    def test_idle_slot_that_dies_is_replaced(self) -> None:
        """The next request does not fail."""
        old_children = list_children()
        pool = self.make_program_executor()
        try:
            pool.run("answer = 1")
            for pid in list_children() - old_children:
                os.kill(pid, signal.SIGKILL)
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # dead, but its pid is not free yet
            assert pool.run("answer = 2").value == 2
        finally:
            pool.close()


def _run_in_parallel(pool: executor.Executor, programs: Sequence[str]) -> list[sandbox.SandboxResult]:
    with ThreadPoolExecutor(len(programs)) as threads:
        return [future.result(60) for future in [threads.submit(pool.run, program) for program in programs]]
