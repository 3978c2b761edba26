"""Permissions of sandboxes, and their derivation from the source of an evaluator."""

import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from atoll import sandbox
from atoll.sandbox import IsolatedSandbox, Limits, Permissions, permissions_from_source
from tests.sandbox.helpers import is_alive, list_descendants, make_program_job, run_program, wait_until

LEVEL = sandbox.get_level(sandbox.probe())
LIMITS = Limits(seconds=20.0, memory_mb=1024, output_bytes=10_000, num_processes=16)
FORKING = Permissions(may_fork=True)

needs_l3 = pytest.mark.skipif(LEVEL != "L3", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


@pytest.mark.parametrize(
    ("source", "may_fork"),
    [
        ("import numpy", False),
        ("import subprocess", True),
        ("import subprocess as s", True),
        ("from multiprocessing import Pool", True),
        ("import multiprocessing.pool", True),
        ("def evaluate(path):\n    import subprocess", True),
        ("from concurrent.futures import ProcessPoolExecutor", True),
        ("import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()", True),
        ("from concurrent.futures import ThreadPoolExecutor", False),
        ("import os\nos.fork()", True),
        ("import platform\nplatform.system()", False),
        ("# import subprocess\n'subprocess'", False),
        ("no python = here", False),
    ],
)
def test_permissions_from_source_detects_forks(source, may_fork):
    assert permissions_from_source(source) == Permissions(may_fork=may_fork)


@pytest.mark.parametrize(
    "source",
    ["import os\nos.system('x')", "from os import popen", "import subprocess\nsubprocess.run('x', shell=True)"],
)
def test_permissions_from_source_detects_shell_commands(source):
    assert permissions_from_source(source) == Permissions(may_fork=True, programs=("/bin/sh",))


@pytest.mark.parametrize("source", ["importlib.import_module('other')", "__import__('other')", "import other.part"])
def test_permissions_from_source_detects_late_imports(source, tmp_path):
    assert permissions_from_source(source, str(tmp_path)).read_paths == ()
    (tmp_path / "other.py").touch()
    assert permissions_from_source(source, str(tmp_path)).read_paths == (str(tmp_path),)


def test_permissions_from_source_detects_use_of_own_folder():
    source = "import os\nDATA = os.path.join(os.path.dirname(__file__), 'data.csv')"
    assert permissions_from_source(source, "/task").read_paths == ("/task",)
    assert permissions_from_source(source).read_paths == ()
    assert permissions_from_source("import os", "/task").read_paths == ()


@pytest.fixture(scope="module", params=["L3", "L2"])
def level(request):
    if request.param > LEVEL:
        pytest.skip(" ".join(sandbox.describe_missing(sandbox.probe())))
    if request.param == "L2" and os.geteuid() == 0 and not os.stat(os.path.expanduser("~")).st_mode & 1:
        pytest.skip("root cannot become a user who can read this Python")
    return request.param


@pytest.fixture(scope="module")
def forking(level):
    with IsolatedSandbox(make_program_job, LIMITS, level=level, permissions=FORKING) as box:
        box.warm()
        yield box


def test_forking_candidate_starts_python(forking):
    program = "import subprocess, sys\nanswer = subprocess.run([sys.executable, '-c', 'import numpy; print(6 * 7)'],"
    assert run_program(forking, f"{program} capture_output=True, text=True, check=True).stdout") == "42\n"


@pytest.mark.parametrize("name", ["python", "python3"])
def test_forking_candidate_starts_python_by_name(forking, name):
    if not os.path.exists(os.path.join(os.path.dirname(sys.executable), name)):
        pytest.skip("Python does not have this name here")
    program = f"import subprocess\nanswer = subprocess.run([{name!r}, '-c', 'import sys; print(sys.prefix)'],"
    assert run_program(forking, f"{program} capture_output=True, text=True, check=True).stdout") == f"{sys.prefix}\n"


def test_shell_starts_only_permitted_programs(level):
    with IsolatedSandbox(
        make_program_job, LIMITS, level=level, permissions=Permissions(may_fork=True, programs=("/bin/sh",))
    ) as box:
        assert run_program(box, "import os; answer = [os.system('exit 3') >> 8, os.system('/bin/true') >> 8 > 0]") == [
            3,
            True,
        ]


def test_forking_candidate_starts_no_other_program(forking):
    result = forking.run("import subprocess; subprocess.run(['/bin/true'])")
    assert re.match("it raised FileNotFoundError|the sandbox does not allow it: Permission", result.failure or "")


def test_forking_candidate_forks(forking):
    program = "import os\npid = os.fork()\nif not pid: os._exit(7)\nanswer = os.waitstatus_to_exitcode(os.wait()[1])"
    assert run_program(forking, program) == 7


def test_process_pool_works():
    if LEVEL != "L3":
        pytest.skip("its locks need a private /dev/shm")
    program = """
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as pool: answer = list(pool.map(abs, [-1, -2]))
"""
    with IsolatedSandbox(make_program_job, LIMITS, level="L3", permissions=FORKING) as box:
        assert run_program(box, program) == [1, 2]


def test_child_has_the_restrictions_of_its_parent(forking):
    program = """
import subprocess, sys
child = "import socket\\ntry: socket.socket()\\nexcept OSError as e: print(e.errno)\\n" \
        "try: open('/etc/passwd')\\nexcept OSError as e: print(e.errno)"
answer = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.split()
"""
    assert run_program(forking, program) in (["1", "2"], ["1", "13"])


def test_fork_bomb_stops_at_the_limit(forking):
    result = forking.run("import os, time\nwhile True:\n    if not os.fork(): time.sleep(60)")
    assert result.failure == "it started more than 16 threads or processes"
    assert run_program(forking, "answer = 7") == 7


def test_leftover_children_are_killed(forking):
    program = (
        "import os, time\nfor _ in range(5):\n    if not os.fork():\n        os.fork(); time.sleep(600)\nanswer = 1"
    )
    assert run_program(forking, program) == 1
    for _ in range(5):  # leftover children would reach the limit
        assert run_program(forking, program) == 1


def test_candidate_can_kill_its_child(forking):
    program = "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    assert run_program(forking, program + "p.kill(); answer = p.wait()") == -9


def test_candidate_cannot_kill_fork_server_or_foreign_process(forking):
    assert forking.run("import os; os.kill(os.getppid(), 9); answer = 1").failure in (
        None,  # process 1 of a namespace gets no signals from inside
        "the sandbox does not allow it: PermissionError: [Errno 1] Operation not permitted",
    )
    result = forking.run(f"import os; os.kill({os.getpid()}, 0)")
    assert re.match("it raised ProcessLookupError|the sandbox does not allow it", result.failure or "")
    assert run_program(forking, "answer = 7") == 7


@needs_l3
@pytest.mark.parametrize("starts", ["os.setsid()", "pass"])
def test_no_process_outlives_the_sandbox(starts):
    program = f"import os, time\nif not os.fork():\n    {starts}\n    time.sleep(600)\ntime.sleep(0.5)\nos._exit(0)"
    with IsolatedSandbox(make_program_job, LIMITS, permissions=FORKING) as box, ThreadPoolExecutor(1) as threads:
        box.warm()
        [process] = box._idle
        before = set(list_descendants(process._popen.pid))
        future, pids = threads.submit(box.run, program), set(before)
        while not future.done():
            pids.update(list_descendants(process._popen.pid))
            time.sleep(0.01)
    assert len(pids) > len(before)  # including the sleeping child
    wait_until(lambda: not any(map(is_alive, pids)))


@needs_l3
def test_permitted_program_can_be_started():
    program = "import subprocess; answer = subprocess.run(['/bin/echo', 'x'], capture_output=True, text=True).stdout"
    with IsolatedSandbox(make_program_job, LIMITS, permissions=Permissions(programs=("/bin/echo",))) as box:
        assert run_program(box, program) == "x\n"
        assert box.run("import subprocess, sys; subprocess.run([sys.executable])").failure


@needs_l3
def test_built_program_needs_permission():
    program = """
import shutil, subprocess
shutil.copy("/bin/echo", "mine")
answer = subprocess.run(["./mine", "x"], capture_output=True, text=True).stdout
"""
    with IsolatedSandbox(make_program_job, LIMITS, permissions=Permissions(programs=("/bin/echo", "."))) as box:
        assert run_program(box, program) == "x\n"
    with IsolatedSandbox(make_program_job, LIMITS, permissions=Permissions(programs=("/bin/echo",))) as box:
        assert "the sandbox does not allow it" in str(box.run(program).failure)


@needs_l3
@pytest.mark.parametrize("at", ["L3", "L2"])
def test_only_permitted_paths_can_be_read(tmp_path, at):
    for name in ("named", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").write_text("here")
    tmp_path.chmod(0o755)
    with IsolatedSandbox(
        make_program_job, LIMITS, level=at, permissions=Permissions(read_paths=(str(tmp_path / "named"),))
    ) as box:
        assert run_program(box, f"answer = open('{tmp_path}/named/data').read()") == "here"
        assert box.run(f"open('{tmp_path}/named/data', 'w')").failure
        assert box.run(f"open('{tmp_path}/other/data')").failure


@needs_l3
def test_only_permitted_variables_are_visible(monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "secret")
    with IsolatedSandbox(make_program_job, LIMITS, permissions=Permissions(env={"DATA_KEY": "given"})) as box:
        assert run_program(box, "import os; answer = [os.environ.get('DATA_KEY'), os.environ.get('OTHER_KEY')]") == [
            "given",
            None,
        ]


@needs_l3
@pytest.mark.parametrize("at", ["L3", "L2"])
def test_network_needs_permission(at):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5); answer = 1"
        with IsolatedSandbox(make_program_job, LIMITS, level=at, permissions=Permissions(network=True)) as box:
            assert run_program(box, program) == 1
        with IsolatedSandbox(make_program_job, LIMITS, level=at) as box:
            assert "the sandbox does not allow it" in str(box.run(program).failure)


def test_sys_executable_is_the_same(forking):
    assert run_program(forking, "import sys; answer = sys.executable") == sys.executable
