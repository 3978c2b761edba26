"""Start and end of workers."""

import gc
import os
import shutil
import signal
import sys
import threading
import time

import pytest

from atoll import errors, sandbox
from atoll.sandbox import ProcessSandbox
from tests.sandbox.helpers import LIMITS, get_pid, is_alive, make_program_job, run_program, start_script, wait_until


def test_dead_worker_whose_child_holds_the_channel_is_replaced():
    def forking():
        import os
        import time

        if not os.fork():
            time.sleep(60)
            os._exit(0)
        return lambda _: os.getpid()

    with ProcessSandbox(forking, LIMITS) as box:
        first = box.run(None).value
        assert isinstance(first, int)
        assert box.run(None).value == first  # a child of the job itself is allowed
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: not is_alive(first))
        assert box.run(None).failure is None


def test_interrupt_ends_only_the_worker_of_the_request(workers):
    first = get_pid(workers)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            workers.run("import time; time.sleep(60)")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not is_alive(first)
    assert run_program(workers, "answer = 7") == 7


def test_worker_survives_the_thread_that_started_it(workers):
    pids: list[int] = []
    thread = threading.Thread(target=lambda: pids.append(get_pid(workers)))
    thread.start()
    thread.join()
    time.sleep(0.1)
    assert get_pid(workers) == pids[0]


def test_unclosed_workers_end_with_garbage_collection():
    box = ProcessSandbox(make_program_job, LIMITS)
    pid = get_pid(box)
    del box
    gc.collect()
    assert not is_alive(pid)


def test_unclosed_workers_end_with_the_interpreter(tmp_path):
    text = """
    def job(): return lambda request: os.getpid()
    if __name__ == "__main__":
        workers = ProcessSandbox(job)
        print(workers.run(1).value, flush=True)
    """
    with start_script(tmp_path, text) as program:
        pid = int(program.communicate()[0])
        assert program.returncode == 0
    assert not is_alive(pid)


@pytest.mark.parametrize("busy", ["time.sleep(60)", "sum(range(10 ** 12))", "os.system('sleep 60')"])
def test_workers_end_when_the_parent_is_killed(tmp_path, temp_dir, busy):
    text = f"""
    def job():
        def run(folder):
            with open(os.path.join(folder, "pid.new"), "w") as file: file.write(str(os.getpid()))
            os.rename(os.path.join(folder, "pid.new"), os.path.join(folder, "pid"))
            {busy}
        return run
    if __name__ == "__main__":
        ProcessSandbox(job).run(os.getcwd())
    """
    with start_script(tmp_path, text) as program:
        wait_until((tmp_path / "pid").exists)
        pid = int((tmp_path / "pid").read_text())
        time.sleep(0.05)
        assert is_alive(pid)
        program.kill()
    wait_until(lambda: not is_alive(pid), 2.0)
    for folder in temp_dir.iterdir():
        shutil.rmtree(folder)  # the killed parent could not do it


def test_fork_of_the_parent_uses_its_own_workers(tmp_path):
    text = """
    def job(): return lambda request: os.getpid()
    if __name__ == "__main__":
        workers = ProcessSandbox(job)
        first = workers.run(1).value
        child = os.fork()
        if not child:
            other = workers.run(1).value
            workers.close()
            sys.exit(0 if other != first else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert workers.run(1).value == first
    """
    with start_script(tmp_path, text) as program:
        program.communicate()
        assert program.returncode == 0


def make_job_that_waits_once(folder):
    """Returns a job whose first worker writes its process id and waits."""

    def make_job():
        try:
            with (folder / "pid").open("x") as file:
                file.write(f"{os.getpid()}\n")
        except FileExistsError:
            return lambda request: request
        time.sleep(60)
        return None

    return make_job


@pytest.mark.parametrize("open_box", [ProcessSandbox, sandbox.open])
def test_worker_killed_while_it_starts_is_replaced(tmp_path, open_box):
    def kill_first():
        wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().endswith("\n"))
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill_first)
    killer.start()
    with open_box(make_job_that_waits_once(tmp_path), LIMITS) as box:
        assert box.run("hello").value == "hello"
    killer.join()


def test_later_worker_that_does_not_start_is_replaced(tmp_path):
    def make_job():
        with (tmp_path / "starts").open("a") as file:
            file.write("x")
        if (tmp_path / "starts").read_text() == "xx":
            raise OSError("no process is free")
        return lambda request: os._exit(1) if request == "end" else request

    with ProcessSandbox(make_job, LIMITS) as box:
        assert box.run("end").failure
        assert box.run("hello").value == "hello"
    assert (tmp_path / "starts").read_text() == "xxx"


def test_job_that_always_kills_its_worker_is_a_setup_error(tmp_path):
    def make_job():
        with (tmp_path / "starts").open("a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    with ProcessSandbox(make_job, LIMITS) as box, pytest.raises(errors.SetupError, match="SIGKILL"):
        box.run("hello")
    assert (tmp_path / "starts").read_text() == "xxx"


def test_broken_python_is_a_setup_error(tmp_path, monkeypatch):
    wrong = tmp_path / "python"
    wrong.write_bytes(b"\0not a program")
    wrong.chmod(0o755)
    for executable in (str(wrong), str(tmp_path / "missing"), ""):
        monkeypatch.setattr(sys, "executable", executable)
        with (
            ProcessSandbox(make_program_job) as box,
            pytest.raises(errors.SetupError, match=r"Worker process .* does not start"),
        ):
            box.run("answer = 1")


def test_executable_other_than_python_is_a_setup_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/ls")
    with ProcessSandbox(make_program_job) as box, pytest.raises(errors.SetupError, match="exit status 2"):
        box.run("answer = 1")
