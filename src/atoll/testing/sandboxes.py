"""What every sandbox promises."""

import contextlib
import os
import signal
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from threading import Thread
from typing import Any

from atoll import errors, sandbox
from atoll.sandbox import Answer, Limits
from atoll.testing import claims

LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000)

# What a candidate does -> what is then said of it, at least.
_FAILURES = {
    "raise ValueError('no luck')": "it raised ValueError: no luck",
    "import sys; sys.exit(3)": "it raised SystemExit: 3",
    "raise KeyboardInterrupt": "it raised KeyboardInterrupt",
    "def f(): return f()\nf()": "it raised RecursionError",
    "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd": "it raised Odd",
    "no python = here": "it raised SyntaxError",
    "answer = {1, 2}": "it returned what is no plain data: set",
    "answer = [object()]": "it returned what is no plain data: object",
    "answer = 10 ** 5000": "it returned what is no plain data",
    "answer = []\nanswer.append(answer)": "it returned what is no plain data",
    "answer = 'x' * 12_300_000": "it returned 12.3 MB, more than 10 kB",
    "import os; os._exit(3)": "it left its process with exit status 3",
    "import os; os._exit(0)": "it left its process with exit status 0",
    "import ctypes; ctypes.string_at(0)": "its process died with signal 11 (SIGSEGV)",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "its process died with signal 9 (SIGKILL)",
}


def maker() -> sandbox.MakeJob:
    """Returns the maker of a job that runs the request, a Python program, and returns its `answer`.

    It is a function inside a function, so that it travels by value and no worker imports all of `atoll.testing`.
    """

    def make() -> Any:
        def run(program: str) -> Any:
            names: dict[str, Any] = {}
            exec(program, names)
            return names.get("answer")

        return run

    return make


class SandboxSuite(ABC):
    """Subclass it, say how to make a sandbox, and every test runs on yours.

    Attributes:
        starts_programs: Whether candidates may start programs of their own.
    """

    starts_programs = True

    @abstractmethod
    def make(self, make_job: sandbox.MakeJob, limits: Limits, num_workers: int) -> sandbox.Sandbox:
        """Returns a new sandbox; the tests close it."""

    @contextlib.contextmanager
    def opened(self, limits: Limits = LIMITS, num_workers: int = 1) -> Iterator[sandbox.Sandbox]:
        """Lends a sandbox that runs Python programs, and demands that nothing of it is left afterwards."""
        before = children()
        made = self.make(maker(), limits, num_workers)
        try:
            yield made
        finally:
            made.close()
        assert children() <= before, "a process is left"

    def test_it_says_how_strong_it_is(self) -> None:
        """Its level is one of the four that users know."""
        with self.opened() as box:
            assert box.level in ("L0", "L1", "L2", "L3")

    def test_plain_data_comes_back_as_it_is(self) -> None:
        """Numbers, texts, lists and objects of JSON; NaN and infinity too."""
        with self.opened() as box:
            for value in (None, True, -3, 1.5, "a\nb \u00e9 \ud800", [1, [2.5, "x"]], {"a": {"b": [None]}}):
                assert _value(box, f"answer = {value!r}") == value
            assert _value(box, "answer = (1, 2)") == [1, 2]
            assert str(_value(box, "answer = [float('nan'), float('-inf')]")) == "[nan, -inf]"

    def test_an_answer_tells_what_was_printed_and_how_long_it_took(self) -> None:
        """Both streams, of children too, and never what an earlier request printed."""
        with self.opened() as box:
            program = "import os, sys, time\nprint('one')\nprint('two', file=sys.stderr)\n"
            program += "os.system('echo three')" if self.starts_programs else "os.write(2, b'three')"
            answer = box.run(f"{program}\ntime.sleep(0.1)")
            assert answer.output.split() == ["one", "two", "three"]
            assert 0.1 <= answer.seconds < 10
            assert box.run("answer = 1").output == ""

    def test_a_traceback_is_part_of_the_output(self) -> None:
        """Whoever mends the candidate sees the line that raised, after what was printed."""
        with self.opened() as box:
            answer = box.run("print('so far')\n1 / 0")
            assert answer.output.startswith("so far")
            assert "line 2" in answer.output
            assert answer.output.rstrip().endswith("ZeroDivisionError: division by zero")

    def test_a_bad_candidate_is_a_failure_and_the_next_one_works(self) -> None:
        """Each failure has its own sentence, and nothing of it reaches the next request."""
        with self.opened() as box:
            for program, failure in _FAILURES.items():
                answer = box.run(program)
                assert answer.value is None
                assert (answer.failure or "").startswith(failure), f"{program}: {answer.failure}"
                assert _value(box, "answer = 7") == 7

    def test_who_takes_too_long_is_killed(self) -> None:
        """Whether it sleeps, loops or sits in one long call of C; what it printed before is kept."""
        with self.opened(Limits(seconds=0.5, memory_mb=512)) as box:
            for program in ("import time; time.sleep(60)", "while True: pass", "sum(range(10**12))"):
                answer = box.run(f"print('here')\n{program}")
                assert answer.failure == "it took longer than 0.5 s"
                assert answer.output.startswith("here\n")
                assert 0.5 <= answer.seconds < 5
                assert _value(box, "answer = 7") == 7

    def test_who_takes_too_much_memory_fails(self) -> None:
        """In one piece or in many."""
        with self.opened() as box:
            for program in ("x = bytearray(2**30)", "x = []\nwhile True: x.append(bytes(2**20))"):
                assert box.run(program).failure == "it used more than 512 MiB"
                assert _value(box, "answer = 7") == 7

    def test_only_the_end_of_much_printing_is_kept(self) -> None:
        """Printing is not returning: a candidate that prints 100 MB is noisy, and no failure."""
        with self.opened() as box:
            answer = box.run("for _ in range(100): print('x' * 10**6)\nprint('the end')\nanswer = 1")
            assert answer.value == 1, answer.failure
            assert answer.output.endswith("x\nthe end\n")
            assert len(answer.output) <= LIMITS.output_bytes

    def test_no_print_can_forge_or_spoil_an_answer(self) -> None:
        """Whatever goes to the streams is output."""
        with self.opened() as box:
            forged = (
                "import os, sys\nprint('{\"value\": 99}')\nos.write(1, bytes(16) + bytes(7) + b'\\x0f[null,false,99]')"
            )
            for program in (forged, "import sys; sys.stdout.close()", "import os; os.close(1); os.close(2)"):
                assert _value(box, f"{program}\nanswer = 7") == 7
            assert box.run("print('still here')").output == "still here\n"

    def test_writing_into_every_descriptor_harms_nobody_else(self) -> None:
        """It may cost the candidate its own answer; the next one gets the right one."""
        with self.opened() as box:
            noise = "import os\nfor fd in range(256):\n    try: os.write(fd, b'\\xff' * 100)\n    except OSError: pass"
            box.run(noise)
            assert _value(box, "answer = 7") == 7
            box.run("import os; os.closerange(0, 256)")
            assert _value(box, "answer = 7") == 7

    def test_it_reads_nothing_from_the_terminal(self) -> None:
        """The input is empty, so that nobody waits for it."""
        with self.opened() as box:
            assert _value(box, "import os; answer = os.read(0, 10).decode()") == ""

    def test_secrets_of_the_environment_do_not_reach_it(self) -> None:
        """An API key of the user is none of a candidate's business."""
        os.environ["ATOLL_TEST_API_KEY"] = "a secret"
        try:
            with self.opened() as box:
                names = "import os; answer = [*os.environ.keys(), *os.environ.values()]"
                found = _value(box, names)
                assert "ATOLL_TEST_API_KEY" not in found
                assert "a secret" not in found
        finally:
            del os.environ["ATOLL_TEST_API_KEY"]

    def test_a_fork_that_comes_back_answers_nothing(self) -> None:
        """There is one answer to a request, and the next request is read once."""
        with self.opened() as box:
            for _ in range(3):
                box.run("import os; answer = os.fork()")
                assert _value(box, "answer = 7") == 7

    def test_threads_share_it(self) -> None:
        """Each gets its own answer, with more threads than workers and failures in between."""
        with self.opened(num_workers=2) as box:

            def ask(number: int) -> list[Any]:
                box.run("raise ValueError" if number % 2 else "import os; os._exit(1)")
                return [_value(box, f"answer = {number * 100 + each}") for each in range(5)]

            assert claims.at_once(ask, 6) == [[number * 100 + each for each in range(5)] for number in range(6)]

    def test_two_workers_work_at_once(self) -> None:
        """A slow candidate does not hold up the others."""
        with self.opened(num_workers=2) as box:
            slow = Thread(target=box.run, args=("import time; time.sleep(60)",))
            slow.start()
            assert _value(box, "answer = 7") == 7
            assert slow.is_alive()
            box.close()
            slow.join(10)
            assert not slow.is_alive()

    def test_closing_fails_whoever_waits(self) -> None:
        """Both the request that runs and the one that waits for a worker; and every later one."""
        with self.opened() as box:
            assert _value(box, "answer = 7") == 7
            answers: list[Answer] = []
            threads = [Thread(target=lambda: answers.append(box.run("import time; time.sleep(60)"))) for _ in range(3)]
            for thread in threads:
                thread.start()
            time.sleep(0.2)
            box.close()
            for thread in threads:
                thread.join(10)
            assert [answer.failure is not None for answer in answers] == [True] * 3
            assert box.run("answer = 7").failure is not None

    def test_closing_twice_does_nothing(self) -> None:
        """Nor does closing what was never used."""
        with self.opened() as box:
            box.close()
            box.close()

    def test_a_job_that_cannot_be_made_is_the_users_to_mend(self) -> None:
        """It is an exception that says what is missing, not a failure of all candidates."""

        def broken() -> Any:
            raise FileNotFoundError("data.csv is not there")

        before = children()
        with claims.raises(errors.SetupError) as caught:
            box = self.make(broken, LIMITS, 1)
            try:
                box.run("answer = 7")
            finally:
                box.close()
        assert "FileNotFoundError: data.csv is not there" in str(caught[0])
        assert children() <= before

    def test_a_worker_killed_between_requests_is_replaced(self) -> None:
        """It was nobody's fault, so nobody fails for it."""
        with self.opened() as box:
            pid = _value(box, "import os; answer = os.getpid()")
            if pid in children():  # a sandbox may have numbers of its own
                os.kill(pid, signal.SIGKILL)
                time.sleep(0.05)
            assert _value(box, "answer = 7") == 7


def _value(box: sandbox.Sandbox, program: str) -> Any:
    answer = box.run(program)
    assert answer.failure is None, f"{program}: {answer.failure}\n{answer.output}"
    return answer.value


def children() -> set[int]:
    """Returns the process ids of our children, zombies too, where the system tells."""
    if not sys.platform.startswith("linux"):
        return set()
    found = set()
    for task in os.listdir("/proc/self/task"):
        # A thread may end between the list and the look.
        with (
            contextlib.suppress(FileNotFoundError, ProcessLookupError),
            open(f"/proc/self/task/{task}/children") as children,
        ):
            found |= {int(pid) for pid in children.read().split()}
    return found
