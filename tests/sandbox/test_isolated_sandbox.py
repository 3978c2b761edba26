"""Start, end and leaks of fork servers."""

import functools
import gc
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from atoll import errors, sandbox
from atoll.sandbox import IsolatedSandbox, Limits
from tests.sandbox.helpers import LIMITS, is_alive, make_program_job, run_program, start_script, wait_until

LEVEL = sandbox.get_level(sandbox.probe())
pytestmark = pytest.mark.skipif(LEVEL != "L3", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


def pids_of(isolated):
    """Returns the processes of the only fork server: at L3 the outer one, the fork server, and the next candidate's."""
    [process] = isolated._idle
    wait_until(lambda: len(list_descendants(process._popen.pid)) == (3 if isolated.level == "L3" else 2))
    return list_descendants(process._popen.pid)


def list_descendants(pid):
    result = [pid]
    for item in result:
        result += map(int, Path(f"/proc/{item}/task/{item}/children").read_text().split())
    return result


@pytest.fixture(params=["L3", "L2"])
def isolated(request, temp_dir):
    with IsolatedSandbox(make_program_job, LIMITS, level=request.param) as box:
        box.warm()
        yield box


def test_fork_server_survives_bad_candidates(isolated):
    first = pids_of(isolated)[0]
    bad = ("import os; os._exit(1)", "import ctypes; ctypes.string_at(0)", "x = bytes(2**40)", "1 / 0")
    for program in bad:
        assert isolated.run(program).failure
        assert pids_of(isolated)[0] == first


def test_close_ends_all_processes(isolated):
    pids = pids_of(isolated)
    isolated.close()
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("which", [0, 1, -1])
def test_fork_server_that_lost_a_process_is_replaced(isolated, which):
    os.kill(pids_of(isolated)[which], signal.SIGKILL)
    time.sleep(0.1)
    assert run_program(isolated, "answer = 7") == 7


def test_stopped_fork_server_is_killed(isolated, monkeypatch):
    monkeypatch.setattr("atoll.sandbox.process.client._GRACE_SECONDS", 0.2)
    with IsolatedSandbox(make_program_job, Limits(seconds=0.2), level=isolated.level) as box:
        box.warm()
        stuck = pids_of(box)
        os.kill(stuck[1] if isolated.level == "L3" else stuck[0], signal.SIGSTOP)
        assert "took longer" in str(box.run("answer = 7").failure)
        wait_until(lambda: not any(map(is_alive, stuck)))
        assert run_program(box, "answer = 7") == 7


def test_unclosed_sandbox_ends_with_garbage_collection():
    box = IsolatedSandbox(make_program_job, LIMITS)
    box.warm()
    pids = pids_of(box)
    del box
    gc.collect()
    wait_until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize(("level", "busy"), [("L3", "time.sleep(60)"), ("L2", "sum(range(10 ** 12))")])
def test_fork_server_ends_when_the_parent_is_killed(tmp_path, temp_dir, level, busy):
    text = f"""
    import threading
    def job():
        def run(request): {busy}
        return run
    if __name__ == "__main__":
        box = IsolatedSandbox(job, level={level!r})
        box.warm()
        print(box._idle[0]._popen.pid, flush=True)
        box.run(1)
    """
    with start_script(tmp_path, text) as program:
        assert program.stdout
        pids = [int(program.stdout.readline())]
        time.sleep(0.2)
        pids = list_descendants(pids[0])
        assert len(pids) >= 2
        program.kill()
    wait_until(lambda: not any(map(is_alive, pids)), 2.0)
    for folder in temp_dir.iterdir():
        for item in (folder / "scratch", folder):
            item.rmdir()  # the killed parent could not do it


def test_fork_server_has_its_own_session(isolated):
    assert all(os.getsid(pid) == pids_of(isolated)[0] for pid in pids_of(isolated))


def test_interrupt_ends_only_the_fork_server_of_the_request(isolated):
    pids = pids_of(isolated)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            isolated.run("import time; time.sleep(60)")
    finally:
        signal.signal(signal.SIGUSR1, before)
    wait_until(lambda: not any(map(is_alive, pids)))
    assert run_program(isolated, "answer = 7") == 7


def test_too_low_memory_limit_is_a_setup_error():
    with (
        IsolatedSandbox(make_program_job, Limits(memory_mb=10)) as box,
        pytest.raises(errors.SetupError, match="leaves too little"),
    ):
        box.warm()


def test_modules_can_be_imported(isolated):
    assert run_program(isolated, "import sqlite3, scipy.optimize, zoneinfo, ssl, lzma; answer = 7") == 7


def test_asyncio_and_threads_work(isolated):
    program = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
async def one(): await asyncio.sleep(0.001); return await asyncio.to_thread(lambda: 3)
with ThreadPoolExecutor(4) as pool: answer = [asyncio.run(one()), *pool.map(abs, [-1, -2])]
"""
    assert run_program(isolated, program) == [3, 1, 2]


def test_large_request(isolated):
    text = "x" * 5_000_000
    assert run_program(isolated, f"answer = len({text!r})") == 5_000_000


def test_low_descriptor_limit_is_enough(tmp_path):
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        for box in (IsolatedSandbox(lambda: len), ProcessSandbox(lambda: len)):
            with box: print(box.run("request"))
    """
    with start_script(tmp_path, program) as started:
        assert started.communicate(timeout=60)[0].count("value=7, failure=None") == 2


def make_logging_job(path):
    import logging

    logging.basicConfig(filename=path, force=True)

    def run(program):
        with open("mine", "w") as file:
            logging.error("not here")
            file.write(program)
        return open("mine").read()  # the process ends soon

    return run


def test_log_file_of_the_job_is_redirected(isolated, tmp_path):
    log = tmp_path / "log"
    with IsolatedSandbox(functools.partial(make_logging_job, str(log)), LIMITS, level=isolated.level) as box:
        result = box.run("text")
    assert (result.value, result.failure, result.output) == ("text", None, "")
    assert log.read_text() == ""


def test_temporary_folder_is_the_scratch_folder(isolated):
    assert run_program(
        isolated, "import os, tempfile; answer = tempfile.gettempdir() == os.getcwd() == os.environ['HOME']"
    )
    with IsolatedSandbox(
        lambda: __import__("tempfile").gettempdir and make_program_job(), LIMITS, level=isolated.level
    ) as box:
        assert run_program(box, "import tempfile; answer = tempfile.mkdtemp() != ''")


FAULTS = (
    "import os; os._exit(3)",
    "import ctypes; ctypes.string_at(0)",
    "raise SystemExit",
    "open('left', 'w').write('x' * 1000)\n1 / 0",
    "import os; os.fork()",
    "x = bytearray(2**40)",
    "import os; os.write(3, b'noise')",
    "print('x' * 10**6)",
    "import os\nfor depth in range(300): os.mkdir('d'); os.chdir('d')",
    "import threading, time\n[threading.Thread(target=time.sleep, args=(9,)).start() for _ in range(9)]",
)


def num_pages(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


def soak(count, level):
    """Runs evaluations, every fifth a failure; returns the number of right results, and the memory early and late."""
    with IsolatedSandbox(make_program_job, LIMITS, level=level) as box:
        box.warm()
        pids, fds, sizes, right = pids_of(box), len(os.listdir("/proc/self/fd")), [], 0
        for number in range(count):
            if number % 5 == 4:
                result = box.run(FAULTS[number // 5 % len(FAULTS)])
                right += result.failure is not None or result.value is None
            else:
                right += box.run(f"answer = {number}").value == number
            if number in (count // 5, count - 1):
                sizes.append(sum(map(num_pages, pids_of(box)[:-1])))
        assert pids_of(box)[:1] == pids[:1]
        assert len(os.listdir("/proc/self/fd")) == fds
    return right, sizes


@pytest.mark.parametrize("level", ["L3", "L2"])
def test_many_evaluations_leak_nothing(level):
    right, sizes = soak(200, level)
    assert right == 200
    assert sizes[1] < 1.1 * sizes[0] + 500


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_thousand_evaluations_leak_nothing():
    right, sizes = soak(10_000, "L3")
    assert right == 10_000
    assert sizes[1] < 1.05 * sizes[0] + 250
