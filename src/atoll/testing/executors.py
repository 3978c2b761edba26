"""Test suite for executors."""

import os
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from atoll import executor, sandbox
from atoll.sandbox import Limits
from atoll.testing import sandboxes


class ExecutorSuite(ABC):
    """Tests for an executor. Subclass it and implement `make`.

    An executor is also a sandbox; `SandboxSuite` tests single requests.
    """

    @abstractmethod
    def make(self, make_job: sandbox.MakeJob, limits: Limits, num_workers: int) -> executor.Executor:
        """Returns a new executor with `num_workers` slots; the tests close it."""

    def make_program_executor(self, num_slots: int = 1, limits: Limits = sandboxes.LIMITS) -> executor.Executor:
        """Returns an executor that runs Python programs; the tests close it."""
        return self.make(sandboxes.get_job_maker(), limits, num_slots)

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
        old_children = sandboxes.list_children()
        pool = self.make_program_executor(limits=Limits(seconds=120.0, memory_mb=512))
        with ThreadPoolExecutor(5) as threads:
            futures = [threads.submit(pool.run, "import time; time.sleep(100)") for _ in range(5)]
            time.sleep(0.5)
            pool.close()
            results = [future.result(60) for future in futures]
        assert {result.failure for result in results} == {"the sandbox was closed"}
        assert pool.run("answer = 1").failure == "the sandbox was closed"
        pool.close()
        assert sandboxes.list_children() <= old_children

    def test_idle_slot_that_dies_is_replaced(self) -> None:
        """The next request does not fail."""
        old_children = sandboxes.list_children()
        pool = self.make_program_executor()
        try:
            pool.run("answer = 1")
            for pid in sandboxes.list_children() - old_children:
                os.kill(pid, signal.SIGKILL)
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # dead, but its pid is not free yet
            assert pool.run("answer = 2").value == 2
        finally:
            pool.close()


def _run_in_parallel(pool: executor.Executor, programs: Sequence[str]) -> list[sandbox.SandboxResult]:
    with ThreadPoolExecutor(len(programs)) as threads:
        return [future.result(60) for future in [threads.submit(pool.run, program) for program in programs]]
