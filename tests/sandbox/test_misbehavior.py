"""Misbehaving candidates in a `ProcessSandbox`."""

import os
import signal
import time

import pytest

from atoll.sandbox import Limits, ProcessSandbox
from tests.sandbox.helpers import get_pid, is_alive, make_program_job, run_program, wait_until


def test_recursion_limit_is_restored_after_a_request(workers):
    before = run_program(workers, "import sys; answer = sys.getrecursionlimit()")
    workers.run("import sys; sys.setrecursionlimit(10**9)")
    assert run_program(workers, "import sys; answer = sys.getrecursionlimit()") == before


def test_endless_recursion_without_recursion_limit_fails():
    with ProcessSandbox(make_program_job, Limits(memory_mb=128)) as box:
        # The failure depends on the place where memory ran out; CPython 3.12 may even raise SystemError.
        assert box.run("import sys; sys.setrecursionlimit(10**9)\ndef f(): f()\nf()").failure
        assert run_program(box, "answer = 7") == 7


def test_alarm_is_cleared_after_a_request(workers):
    workers.run("import signal; signal.setitimer(signal.ITIMER_REAL, 0.1)")
    assert run_program(workers, "import time; time.sleep(0.2); answer = 7") == 7


def test_crash_output_has_the_location(workers):
    result = workers.run("import ctypes\ndef crash(): ctypes.string_at(0)\ncrash()")
    assert "in crash" in result.output


def test_file_size_is_limited(workers):
    result = workers.run("with open('big', 'wb') as file:\n    while True: file.write(bytes(2**24))")
    assert result.failure == "it raised OSError: [Errno 27] File too large"


def test_output_of_a_child_is_cut(workers):
    result = workers.run("import os; os.system('head -c 50000000 /dev/zero | tr \"\\\\0\" x; echo end'); answer = 7")
    assert result.value == 7
    assert result.output.endswith("xxend\n")
    assert len(result.output) == 10_000


def test_unprintable_exception_fails(workers):
    result = workers.run("class Odd(Exception):\n    def __str__(self): raise SystemExit\nraise Odd")
    assert result.failure == "it raised Odd: (its __str__ raised SystemExit)"
    assert run_program(workers, "answer = 7") == 7


def test_leftover_threads_end_with_their_worker(workers):
    first = get_pid(workers)
    program = "import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\nanswer = 7"
    assert run_program(workers, program) == 7
    assert not is_alive(first)
    assert get_pid(workers) != first


@pytest.mark.parametrize(
    "program",
    [
        "import subprocess; answer = subprocess.Popen(['sleep', '60']).pid",
        "import os, time\nanswer = os.fork()\nif not answer: time.sleep(60)",
        "import os, time\nanswer = os.fork()\nif not answer: time.sleep(60)\nprint(answer, flush=True)\nos._exit(3)",
        "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)\nwhile True: pass",
    ],
    ids=["program", "fork", "fork that holds the channel", "program and endless loop"],
)
def test_leftover_children_end_with_their_worker(program):
    with ProcessSandbox(make_program_job, Limits(seconds=1.0)) as box:
        result = box.run(program)
        child = int(str(result.value or result.output))
        wait_until(lambda: not is_alive(child))
        assert run_program(box, "answer = 7") == 7


def test_exit_handlers_of_candidates_do_not_run(workers, tmp_path):
    run_program(workers, f"import atexit; atexit.register(open, {str(tmp_path / 'left')!r}, 'w')")
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


def test_noise_between_requests_does_not_fail_the_next(workers):
    os.kill(run_program(workers, LATE_NOISE), signal.SIGUSR1)
    time.sleep(0.1)
    assert run_program(workers, "answer = 8") == 8


FORGER = """
import os, struct, sys
frame = sys._getframe()
while "token" not in frame.f_locals: frame = frame.f_back
fd, token = frame.f_locals["self"]._channel.fd, frame.f_locals["token"]
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
    ids=["deep", "invalid text", "no result", "too long", "wrong token", "short"],
)
def test_forged_frame_fails_only_its_request(forgery, failure):
    with ProcessSandbox(make_program_job) as box:
        assert box.run(f"{FORGER}os.write(fd, {forgery})").failure == failure
        assert run_program(box, "answer = 7") == 7
