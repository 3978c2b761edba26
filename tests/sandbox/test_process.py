"""How workers begin and end."""

import gc
import os
import shutil
import signal
import sys
import threading
import time

import pytest

from atoll import errors
from atoll.sandbox import ProcessSandbox
from tests.sandbox.boxes import LIMITS, is_alive, pid_of, programs, script, until, value


def test_a_dead_worker_is_replaced_even_if_a_child_holds_its_channel():
    def forking():
        import os
        import time

        if not os.fork():
            time.sleep(60)
            os._exit(0)
        return lambda _: os.getpid()

    with ProcessSandbox(forking, LIMITS) as made:
        first = made.run(None).value
        assert isinstance(first, int)
        assert made.run(None).value == first  # the child is the job's own, and no reason to replace its worker
        os.kill(first, signal.SIGKILL)
        until(lambda: not is_alive(first))
        assert made.run(None).failure is None


def test_the_interrupt_of_a_run_takes_its_worker_and_no_more(workers):
    first = pid_of(workers)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            workers.run("import time; time.sleep(60)")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not is_alive(first)
    assert value(workers, "answer = 7") == 7


def test_a_thread_that_ends_does_not_take_the_worker_that_it_started(workers):
    pids: list[int] = []
    thread = threading.Thread(target=lambda: pids.append(pid_of(workers)))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert pid_of(workers) == pids[0]


def test_workers_that_nobody_closes_end_when_nobody_can_use_them():
    made = ProcessSandbox(programs, LIMITS)
    pid = pid_of(made)
    del made
    gc.collect()
    assert not is_alive(pid)


def test_workers_that_nobody_closes_end_with_the_interpreter(tmp_path):
    text = """
    def job(): return lambda request: os.getpid()
    if __name__ == "__main__":
        workers = Workers(job)
        print(workers.run(1).value, flush=True)
    """
    with script(tmp_path, text) as program:
        pid = int(program.communicate()[0])
        assert program.returncode == 0
    assert not is_alive(pid)


@pytest.mark.parametrize("busy", ["time.sleep(60)", "sum(range(10 ** 12))", "os.system('sleep 60')"])
def test_workers_end_with_a_parent_that_is_killed(tmp_path, temp_dir, busy):
    text = f"""
    def job():
        def run(folder):
            with open(os.path.join(folder, "pid.new"), "w") as file: file.write(str(os.getpid()))
            os.rename(os.path.join(folder, "pid.new"), os.path.join(folder, "pid"))
            {busy}
        return run
    if __name__ == "__main__":
        Workers(job).run(os.getcwd())
    """
    with script(tmp_path, text) as program:
        until((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        time.sleep(0.05)
        assert is_alive(pid)
        program.kill()
    until(lambda: not is_alive(pid), 2.0)
    for folder in temp_dir.iterdir():
        shutil.rmtree(folder)  # nobody was left to do it


def test_a_fork_of_the_parent_leaves_its_workers_alone(tmp_path):
    text = """
    def job(): return lambda request: os.getpid()
    if __name__ == "__main__":
        workers = Workers(job)
        first = workers.run(1).value
        child = os.fork()
        if not child:
            other = workers.run(1).value
            workers.close()
            sys.exit(0 if other != first else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert workers.run(1).value == first
    """
    with script(tmp_path, text) as program:
        program.communicate()
        assert program.returncode == 0


def test_a_python_that_does_not_start_is_the_users_to_mend(tmp_path, monkeypatch):
    wrong = tmp_path / "python"
    wrong.write_bytes(b"\0no program")
    wrong.chmod(0o755)
    for executable in (str(wrong), str(tmp_path / "missing"), ""):
        monkeypatch.setattr(sys, "executable", executable)
        with ProcessSandbox(programs) as made, pytest.raises(errors.SetupError, match="No worker can be started with"):
            made.run("answer = 1")


def test_a_program_that_is_no_python_is_the_users_to_mend(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/ls")
    with ProcessSandbox(programs) as made, pytest.raises(errors.SetupError, match="exit status 2"):
        made.run("answer = 1")
