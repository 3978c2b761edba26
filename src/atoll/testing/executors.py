"""What every executor promises."""

import os
import signal
import time
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

from atoll import executor, sandbox
from atoll.sandbox import Limits
from atoll.testing import sandboxes


class ExecutorSuite(ABC):
    """Subclass it, say how to make an executor, and every test runs on yours.

    An executor is a sandbox too: what it does with one request is `SandboxSuite`'s to test.
    """

    @abstractmethod
    def make(self, make_job: sandbox.MakeJob, limits: Limits, num_workers: int) -> executor.Executor:
        """Returns a new executor with so many slots; the tests close it."""

    def make_program_executor(self, num_slots: int = 1, limits: Limits = sandboxes.LIMITS) -> executor.Executor:
        """Returns an executor that runs Python programs; the tests close it."""
        return self.make(sandboxes.get_job_maker(), limits, num_slots)

    def test_num_slots_is_reported(self) -> None:
        """Its slots are those that it was made with."""
        pool = self.make_program_executor(num_slots=3)
        pool.close()
        assert pool.num_slots == 3

    def test_each_request_gets_its_own_result(self) -> None:
        """Many at once, in whatever order they end."""
        pool = self.make_program_executor(num_slots=2)
        try:
            pending = [pool.submit(f"answer = {index}") for index in range(20)]
            assert [request.result(60).value for request in pending] == list(range(20))
        finally:
            pool.close()

    def test_submit_waits_when_all_slots_are_taken(self) -> None:
        """Nobody can hand over more than the slots and as many again."""
        pool = self.make_program_executor()
        try:
            submitted: list[executor.Pending] = []
            submitter = Thread(
                target=lambda: submitted.extend(pool.submit("import time; time.sleep(0.5)") for _ in range(4))
            )
            submitter.start()
            time.sleep(0.2)
            assert len(submitted) <= 2
            submitter.join()
            assert [request.result(60).failure for request in submitted] == [None] * 4
        finally:
            pool.close()

    def test_cancel_kills_only_the_cancelled_requests(self) -> None:
        """One that runs and one that waits; the slot serves the next."""
        pool = self.make_program_executor(limits=Limits(seconds=120.0, memory_mb=512))
        try:
            start_time = time.monotonic()
            running = pool.submit("import time; time.sleep(100)")
            waiting = pool.submit("answer = 1")
            time.sleep(0.5)
            for each in (waiting, running):
                each.cancel()
            assert [request.result(60).failure for request in (running, waiting)] == ["it was cancelled"] * 2
            assert pool.submit("answer = 2").result(60).value == 2
            assert time.monotonic() - start_time < 60
        finally:
            pool.close()

    def test_cancel_after_completion_changes_nothing(self) -> None:
        """The answer stays, and so does the slot."""
        pool = self.make_program_executor()
        try:
            request = pool.submit("answer = 1")
            assert request.result(60).value == 1
            request.cancel()
            assert (request.result().value, pool.run("answer = 2").value) == (1, 2)
        finally:
            pool.close()

    def test_candidate_that_kills_its_slot_fails_once(self) -> None:
        """Each such candidate costs one slot, and the next finds a new one."""
        pool = self.make_program_executor(num_slots=2)
        try:
            bad = [pool.submit("import os; os._exit(9)") for _ in range(6)]
            good = [pool.submit("answer = 1") for _ in range(6)]
            assert ["exit status 9" in (request.result(60).failure or "") for request in bad] == [True] * 6
            assert [request.result(60).value for request in good] == [1] * 6
        finally:
            pool.close()

    def test_close_fails_all_requests_and_leaves_no_process(self) -> None:
        """Those that run, those that wait, and those that come too late; no process stays."""
        old_children = sandboxes.list_children()
        pool = self.make_program_executor(limits=Limits(seconds=120.0, memory_mb=512))
        with ThreadPoolExecutor() as threads:
            submitted = [threads.submit(pool.submit, "import time; time.sleep(100)") for _ in range(5)]
            time.sleep(0.5)
            pool.close()
            results = [future.result(60).result(60) for future in submitted]
        assert {result.failure for result in results} == {"the sandbox was closed"}
        assert pool.submit("answer = 1").result(60).failure == "the sandbox was closed"
        pool.close()
        assert sandboxes.list_children() <= old_children

    def test_idle_slot_that_dies_is_replaced(self) -> None:
        """Whoever comes next does not notice."""
        old_children = sandboxes.list_children()
        pool = self.make_program_executor()
        try:
            pool.run("answer = 1")
            for pid in sandboxes.list_children() - old_children:
                os.kill(pid, signal.SIGKILL)
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # dead, and its number is not free yet
            assert pool.submit("answer = 2").result(60).value == 2
        finally:
            pool.close()
