"""How zygotes begin and end, and what is left of them."""

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
from tests.sandbox.boxes import LIMITS, is_alive, programs, script, until, value

LEVEL = sandbox.get_level(sandbox.probe())
pytestmark = pytest.mark.skipif(LEVEL != "L3", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


def pids_of(jail):
    """Returns all processes of the only zygote: the keeper at L3, the zygote, and the next candidate's, once forked."""
    [process] = jail._idle
    until(lambda: len(family(process._popen.pid)) == (3 if jail.level == "L3" else 2))
    return family(process._popen.pid)


def family(pid):
    found = [pid]
    for each in found:
        found += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
    return found


@pytest.fixture(params=["L3", "L2"])
def jail(request, temp_dir):
    with IsolatedSandbox(programs, LIMITS, level=request.param) as made:
        made.warm()
        yield made


def test_a_zygote_serves_all_candidates_even_bad_ones(jail):
    first = pids_of(jail)[0]
    bad = ("import os; os._exit(1)", "import ctypes; ctypes.string_at(0)", "x = bytes(2**40)", "1 / 0")
    for program in bad:
        assert jail.run(program).failure
        assert pids_of(jail)[0] == first


def test_nothing_of_a_zygote_is_left(jail):
    pids = pids_of(jail)
    jail.close()
    until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_jail_that_lost_a_process_is_replaced(jail, which):
    os.kill(pids_of(jail)[which], signal.SIGKILL)
    time.sleep(0.1)
    assert value(jail, "answer = 7") == 7  # it was nobody's fault


def test_a_zygote_that_does_not_answer_is_ended(jail, monkeypatch):
    monkeypatch.setattr("atoll.sandbox.warden._GRACE_SECONDS", 0.2)
    with IsolatedSandbox(programs, Limits(seconds=0.2), level=jail.level) as made:
        made.warm()
        stuck = pids_of(made)
        os.kill(stuck[1] if jail.level == "L3" else stuck[0], signal.SIGSTOP)
        assert "took longer" in str(made.run("answer = 7").failure)
        until(lambda: not any(map(is_alive, stuck)))
        assert value(made, "answer = 7") == 7


def test_jails_that_nobody_closes_end_when_nobody_can_use_them():
    made = IsolatedSandbox(programs, LIMITS)
    made.warm()
    pids = pids_of(made)
    del made
    gc.collect()
    until(lambda: not any(map(is_alive, pids)))


@pytest.mark.parametrize(("level", "busy"), [("L3", "time.sleep(60)"), ("L2", "sum(range(10 ** 12))")])
def test_a_jail_ends_with_a_parent_that_is_killed(tmp_path, temp_dir, level, busy):
    text = f"""
    import threading
    def job():
        def run(request): {busy}
        return run
    if __name__ == "__main__":
        jail = Jail(job, level={level!r})
        jail.warm()
        print(jail._idle[0]._popen.pid, flush=True)
        jail.run(1)
    """
    with script(tmp_path, text) as program:
        assert program.stdout
        pids = [int(program.stdout.readline())]
        time.sleep(0.2)
        pids = family(pids[0])
        assert len(pids) >= 2
        program.kill()
    until(lambda: not any(map(is_alive, pids)), 2.0)
    for folder in temp_dir.iterdir():
        for each in (folder / "desk", folder):
            each.rmdir()  # nobody was left to do it


def test_ctrl_c_on_the_terminal_does_not_reach_a_zygote(jail):
    assert all(os.getsid(pid) == pids_of(jail)[0] for pid in pids_of(jail))


def test_the_interrupt_of_a_run_takes_its_zygote_and_no_more(jail):
    pids = pids_of(jail)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            jail.run("import time; time.sleep(60)")
    finally:
        signal.signal(signal.SIGUSR1, before)
    until(lambda: not any(map(is_alive, pids)))
    assert value(jail, "answer = 7") == 7


def test_a_memory_limit_that_leaves_nothing_is_the_users_to_mend():
    with (
        IsolatedSandbox(programs, Limits(memory_mb=10)) as made,
        pytest.raises(errors.SetupError, match="leaves too little"),
    ):
        made.warm()


def test_modules_can_be_imported_in_the_jail(jail):
    assert value(jail, "import sqlite3, scipy.optimize, zoneinfo, ssl, lzma; answer = 7") == 7


def test_asyncio_and_threads_work(jail):
    program = """
import asyncio, threading
from concurrent.futures import ThreadPoolExecutor
async def one(): await asyncio.sleep(0.001); return await asyncio.to_thread(lambda: 3)
with ThreadPoolExecutor(4) as pool: answer = [asyncio.run(one()), *pool.map(abs, [-1, -2])]
"""
    assert value(jail, program) == [3, 1, 2]


def test_a_large_request_passes(jail):
    text = "x" * 5_000_000
    assert value(jail, f"answer = len({text!r})") == 5_000_000


def test_few_descriptors_are_enough(tmp_path):
    program = """
        import resource
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        for made in (Jail(lambda: len), Workers(lambda: len)):
            with made: print(made.run("request"))
    """
    with script(tmp_path, program) as started:
        assert started.communicate(timeout=60)[0].count("value=7, failure=None") == 2


def keeping_a_log(path):
    import logging

    logging.basicConfig(filename=path, force=True)

    def run(program):
        with open("mine", "w") as file:
            logging.error("not here")
            file.write(program)
        return open("mine").read()  # the process ends anyway

    return run


def test_what_a_job_opened_to_write_to_is_out_of_the_way(jail, tmp_path):
    log = tmp_path / "log"
    with IsolatedSandbox(functools.partial(keeping_a_log, str(log)), LIMITS, level=jail.level) as made:
        answer = made.run("text")
    assert (answer.value, answer.failure, answer.output) == ("text", None, "")
    assert log.read_text() == ""


def test_the_folder_for_temporary_files_is_the_scratch_folder(jail):
    assert value(jail, "import os, tempfile; answer = tempfile.gettempdir() == os.getcwd() == os.environ['HOME']")
    with IsolatedSandbox(lambda: __import__("tempfile").gettempdir and programs(), LIMITS, level=jail.level) as made:
        assert value(made, "import tempfile; answer = tempfile.mkdtemp() != ''")


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
    """Runs many evaluations, every fifth a fault; returns how many were answered right, and the memory at both ends."""
    with IsolatedSandbox(programs, LIMITS, level=level) as made:
        made.warm()
        pids, fds, sizes, right = pids_of(made), len(os.listdir("/proc/self/fd")), [], 0
        for number in range(count):
            if number % 5 == 4:
                answer = made.run(FAULTS[number // 5 % len(FAULTS)])
                right += answer.failure is not None or answer.value is None
            else:
                right += made.run(f"answer = {number}").value == number
            if number in (count // 5, count - 1):
                sizes.append(sum(map(num_pages, pids_of(made)[:-1])))
        assert pids_of(made)[:1] == pids[:1]
        assert len(os.listdir("/proc/self/fd")) == fds
    return right, sizes


@pytest.mark.parametrize("level", ["L3", "L2"])
def test_many_evaluations_leave_nothing(level):
    right, sizes = soak(200, level)
    assert right == 200
    assert sizes[1] < 1.1 * sizes[0] + 500


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_ten_thousand_evaluations_leave_nothing():
    right, sizes = soak(10_000, "L3")
    assert right == 10_000
    assert sizes[1] < 1.05 * sizes[0] + 250
