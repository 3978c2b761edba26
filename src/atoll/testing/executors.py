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

    def made(self, num_slots: int = 1, limits: Limits = sandboxes.LIMITS) -> executor.Executor:
        """Returns an executor that runs Python programs; the tests close it."""
        return self.make(sandboxes.maker(), limits, num_slots)

    def test_it_says_how_many_run_at_once(self) -> None:
        """Its slots are those that it was made with."""
        box = self.made(num_slots=3)
        box.close()
        assert box.num_slots == 3

    def test_every_request_gets_its_own_answer(self) -> None:
        """Many at once, in whatever order they end."""
        box = self.made(num_slots=2)
        try:
            pending = [box.submit(f"answer = {number}") for number in range(20)]
            assert [each.result(60).value for each in pending] == list(range(20))
        finally:
            box.close()

    def test_a_full_house_makes_the_next_one_wait(self) -> None:
        """Nobody can hand over more than the slots and as many again."""
        box = self.made()
        try:
            taken: list[executor.Pending] = []
            giver = Thread(target=lambda: taken.extend(box.submit("import time; time.sleep(0.5)") for _ in range(4)))
            giver.start()
            time.sleep(0.2)
            assert len(taken) <= 2
            giver.join()
            assert [each.result(60).failure for each in taken] == [None] * 4
        finally:
            box.close()

    def test_a_cancelled_request_is_killed_and_others_are_not(self) -> None:
        """One that runs and one that waits; the slot serves the next."""
        box = self.made(limits=Limits(seconds=120.0, memory_mb=512))
        try:
            since = time.monotonic()
            runs = box.submit("import time; time.sleep(100)")
            waits = box.submit("answer = 1")
            time.sleep(0.5)
            for each in (waits, runs):
                each.cancel()
            assert [each.result(60).failure for each in (runs, waits)] == ["it was cancelled"] * 2
            assert box.submit("answer = 2").result(60).value == 2
            assert time.monotonic() - since < 60
        finally:
            box.close()

    def test_cancelling_what_is_done_changes_nothing(self) -> None:
        """The answer stays, and so does the slot."""
        box = self.made()
        try:
            done = box.submit("answer = 1")
            assert done.result(60).value == 1
            done.cancel()
            assert (done.result().value, box.run("answer = 2").value) == (1, 2)
        finally:
            box.close()

    def test_who_kills_its_slot_is_told_of_once_and_never_tried_again(self) -> None:
        """Each such candidate costs one slot, and the next finds a new one."""
        box = self.made(num_slots=2)
        try:
            bad = [box.submit("import os; os._exit(9)") for _ in range(6)]
            good = [box.submit("answer = 1") for _ in range(6)]
            assert ["exit status 9" in (each.result(60).failure or "") for each in bad] == [True] * 6
            assert [each.result(60).value for each in good] == [1] * 6
        finally:
            box.close()

    def test_a_close_answers_everybody_and_leaves_nothing(self) -> None:
        """Those that run, those that wait, and those that come too late; no process stays."""
        before = sandboxes.children()
        box = self.made(limits=Limits(seconds=120.0, memory_mb=512))
        with ThreadPoolExecutor() as threads:
            taken = [threads.submit(box.submit, "import time; time.sleep(100)") for _ in range(5)]
            time.sleep(0.5)
            box.close()
            answers = [each.result(60).result(60) for each in taken]
        assert {answer.failure for answer in answers} == {"the sandbox was closed"}
        assert box.submit("answer = 1").result(60).failure == "the sandbox was closed"
        box.close()
        assert sandboxes.children() <= before

    def test_a_slot_that_dies_while_nobody_uses_it_is_replaced(self) -> None:
        """Whoever comes next does not notice."""
        before = sandboxes.children()
        box = self.made()
        try:
            box.run("answer = 1")
            for pid in sandboxes.children() - before:
                os.kill(pid, signal.SIGKILL)
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # dead, and its number is not free yet
            assert box.submit("answer = 2").result(60).value == 2
        finally:
            box.close()
