"""Candidates that do not play by the rules."""

import os
import signal
import time

import pytest

from atoll.sandbox import Limits, ProcessSandbox
from tests.sandbox.boxes import is_alive, pid_of, programs, until, value


def test_a_recursion_limit_holds_for_one_request(workers):
    before = value(workers, "import sys; answer = sys.getrecursionlimit()")
    workers.run("import sys; sys.setrecursionlimit(10**9)")
    assert value(workers, "import sys; answer = sys.getrecursionlimit()") == before


def test_endless_recursion_without_a_limit_is_a_failure():
    with ProcessSandbox(programs, Limits(memory_mb=128)) as made:
        # Which one depends on where the memory ended: CPython 3.12 may even raise a SystemError.
        assert made.run("import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()").failure
        assert value(made, "answer = 7") == 7


def test_an_alarm_holds_for_one_request(workers):
    workers.run("import signal; signal.setitimer(signal.ITIMER_REAL, 0.1)")
    assert value(workers, "import time; time.sleep(0.2); answer = 7") == 7


def test_a_crash_says_where(workers):
    answer = workers.run("import ctypes\ndef crash(): ctypes.string_at(0)\ncrash()")
    assert "in crash" in answer.output


def test_a_file_cannot_fill_the_disk(workers):
    answer = workers.run("with open('big', 'wb') as file:\n    while True: file.write(bytes(2**24))")
    assert answer.failure == "it raised OSError: [Errno 27] File too large"


def test_much_printing_of_a_child_is_cut_too(workers):
    answer = workers.run("import os; os.system('head -c 50000000 /dev/zero | tr \"\\\\0\" x; echo end'); answer = 7")
    assert answer.value == 7
    assert answer.output.endswith("xxend\n")
    assert len(answer.output) == 10_000


def test_an_exception_that_cannot_be_printed_is_a_failure(workers):
    answer = workers.run("class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd")
    assert answer.failure == "it raised Odd: (asked what it says, it raised SystemExit)"
    assert value(workers, "answer = 7") == 7


def test_threads_that_go_on_end_with_their_worker(workers):
    first = pid_of(workers)
    program = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nanswer = 7"
    assert value(workers, program) == 7
    assert not is_alive(first)
    assert pid_of(workers) != first


@pytest.mark.parametrize(
    "program",
    [
        "import subprocess; answer = subprocess.Popen(['sleep', '60']).pid",
        "import os, time\nanswer = os.fork()\nif not answer: time.sleep(60)",
        "import os, time\nanswer = os.fork()\nif not answer: time.sleep(60)\nprint(answer, flush=True)\nos._exit(3)",
        "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)\nwhile True: pass",
    ],
    ids=["a program", "a fork", "a fork that holds the channel", "a program and no end"],
)
def test_children_that_go_on_end_with_their_worker(program):
    with ProcessSandbox(programs, Limits(seconds=1.0)) as made:
        answer = made.run(program)
        child = int(str(answer.value or answer.output))
        until(lambda: not is_alive(child))
        assert value(made, "answer = 7") == 7


def test_what_a_candidate_left_for_the_exit_does_not_run(workers, tmp_path):
    value(workers, f"import atexit; atexit.register(open, {str(tmp_path / 'left')!r}, 'w')")
    workers.close()
    assert not (tmp_path / "left").exists()


LATE_NOISE = """
import os, signal
def write(*_):
    for fd in range(3, 128):
        try: os.write(fd, b"noise" * 10)
        except OSError: pass
signal.signal(signal.SIGUSR1, write)
answer = os.getpid()
"""


def test_noise_between_requests_is_not_the_fault_of_the_next(workers):
    os.kill(value(workers, LATE_NOISE), signal.SIGUSR1)
    time.sleep(0.1)
    assert value(workers, "answer = 8") == 8


FORGER = """
import os, struct, sys
frame = sys._getframe()
while "token" not in frame.f_locals: frame = frame.f_back
fd, token = frame.f_locals["self"]._channel._fd, frame.f_locals["token"]
"""


@pytest.mark.parametrize(
    ("forgery", "failure"),
    [
        ("token + struct.pack('!Q', 200000) + b'[' * 200000", "it wrote to the channel of its worker"),
        ("token + struct.pack('!Q', 3) + b'\\xff\\xff\\xff'", "it wrote to the channel of its worker"),
        ("token + struct.pack('!Q', 7) + b'[0,0,9]'", "it wrote to the channel of its worker"),
        ("token + struct.pack('!Q', 4 * 10**9)", "it returned 4000 MB, more than 1 MB"),
        ("bytes(16) + struct.pack('!Q', 15) + b'[null,false,99]'", "it wrote to the channel of its worker"),
        ("b'short'", "it wrote to the channel of its worker"),
    ],
    ids=["deep", "no text", "no verdict", "endless", "no token", "short"],
)
def test_a_forged_frame_cannot_harm_the_parent(forgery, failure):
    with ProcessSandbox(programs) as made:
        assert made.run(f"{FORGER}os.write(fd, {forgery})").failure == failure
        assert value(made, "answer = 7") == 7
