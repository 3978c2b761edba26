"""What a wider jail allows, and that it is the evaluator that asks for it."""

import os
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from atoll import sandbox
from atoll.sandbox import IsolatedSandbox, Limits, Permissions, permissions_from_source
from tests.sandbox.boxes import family, is_alive, programs, until, value

LEVEL = sandbox.get_level(sandbox.probe())
LIMITS = Limits(seconds=20.0, memory_mb=1024, output_bytes=10_000, num_processes=16)
FORKING = Permissions(may_fork=True)

needs_jail = pytest.mark.skipif(LEVEL != "L3", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


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
def test_a_profile_is_chosen_from_the_evaluators_own_source(source, may_fork):
    assert permissions_from_source(source) == Permissions(may_fork=may_fork)


@pytest.mark.parametrize(
    "source",
    ["import os\nos.system('x')", "from os import popen", "import subprocess\nsubprocess.run('x', shell=True)"],
)
def test_an_evaluator_that_runs_commands_gets_a_shell(source):
    assert permissions_from_source(source) == Permissions(may_fork=True, programs=("/bin/sh",))


@pytest.mark.parametrize("source", ["importlib.import_module('other')", "__import__('other')", "import other.part"])
def test_a_module_that_is_imported_late_may_be_read_with_its_folder(source, tmp_path):
    assert permissions_from_source(source, str(tmp_path)).read_paths == ()
    (tmp_path / "other.py").touch()
    assert permissions_from_source(source, str(tmp_path)).read_paths == (str(tmp_path),)


def test_an_evaluator_that_looks_beside_itself_may_read_its_folder():
    source = "import os\nDATA = os.path.join(os.path.dirname(__file__), 'data.csv')"
    assert permissions_from_source(source, "/task").read_paths == ("/task",)
    assert permissions_from_source(source).read_paths == ()
    assert permissions_from_source("import os", "/task").read_paths == ()


@pytest.fixture(scope="module", params=["L3", "L2"])
def level(request):
    if request.param > LEVEL:
        pytest.skip(" ".join(sandbox.describe_missing(sandbox.probe())))
    if request.param == "L2" and os.geteuid() == 0 and not os.stat(os.path.expanduser("~")).st_mode & 1:
        pytest.skip("root cannot become a user who reads this Python")
    return request.param


@pytest.fixture(scope="module")
def wide(level):
    with IsolatedSandbox(programs, LIMITS, level=level, permissions=FORKING) as made:
        made.warm()
        yield made


def test_this_python_may_be_started(wide):
    program = "import subprocess, sys\nanswer = subprocess.run([sys.executable, '-c', 'import numpy; print(6 * 7)'],"
    assert value(wide, f"{program} capture_output=True, text=True, check=True).stdout") == "42\n"


@pytest.mark.parametrize("name", ["python", "python3"])
def test_this_python_may_be_started_by_its_name(wide, name):
    if not os.path.exists(os.path.join(os.path.dirname(sys.executable), name)):
        pytest.skip("this Python has no such name")
    program = f"import subprocess\nanswer = subprocess.run([{name!r}, '-c', 'import sys; print(sys.prefix)'],"
    assert value(wide, f"{program} capture_output=True, text=True, check=True).stdout") == f"{sys.prefix}\n"


def test_a_shell_starts_no_more_than_its_evaluator(level):
    with IsolatedSandbox(
        programs, LIMITS, level=level, permissions=Permissions(may_fork=True, programs=("/bin/sh",))
    ) as made:
        assert value(made, "import os; answer = [os.system('exit 3') >> 8, os.system('/bin/true') >> 8 > 0]") == [
            3,
            True,
        ]


def test_no_other_program_may_be_started(wide):
    answer = wide.run("import subprocess; subprocess.run(['/bin/true'])")
    assert re.match("it raised FileNotFoundError|it tried what the jail forbids: Permission", answer.failure or "")


def test_processes_may_be_forked(wide):
    program = "import os\npid = os.fork()\nif not pid: os._exit(7)\nanswer = os.waitstatus_to_exitcode(os.wait()[1])"
    assert value(wide, program) == 7


def test_a_pool_of_processes_works():
    if LEVEL != "L3":
        pytest.skip("its locks need a /dev/shm of its own")
    program = """
import multiprocessing as mp
from concurrent.futures import ProcessPoolExecutor
with ProcessPoolExecutor(2, mp_context=mp.get_context("fork")) as pool: answer = list(pool.map(abs, [-1, -2]))
"""
    with IsolatedSandbox(programs, LIMITS, level="L3", permissions=FORKING) as made:
        assert value(made, program) == [1, 2]


def test_a_child_is_as_bound_as_its_parent(wide):
    program = """
import subprocess, sys
child = "import socket\\ntry: socket.socket()\\nexcept OSError as e: print(e.errno)\\n" \
        "try: open('/etc/passwd')\\nexcept OSError as e: print(e.errno)"
answer = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout.split()
"""
    assert value(wide, program) in (["1", "2"], ["1", "13"])


def test_a_fork_bomb_ends_at_the_limit(wide):
    answer = wide.run("import os, time\nwhile True:\n    if not os.fork(): time.sleep(60)")
    assert answer.failure == "it started more than 16 threads or processes"
    assert value(wide, "answer = 7") == 7


def test_children_that_go_on_are_ended(wide):
    program = (
        "import os, time\nfor _ in range(5):\n    if not os.fork():\n        os.fork(); time.sleep(600)\nanswer = 1"
    )
    assert value(wide, program) == 1
    for _ in range(5):  # else the limit would soon be reached
        assert value(wide, program) == 1


def test_a_child_may_be_ended_by_who_started_it(wide):
    program = "import subprocess, sys\np = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    assert value(wide, program + "p.kill(); answer = p.wait()") == -9


def test_neither_the_zygote_nor_a_stranger_can_be_killed(wide):
    assert wide.run("import os; os.kill(os.getppid(), 9); answer = 1").failure in (
        None,  # to process 1 of a namespace no signal from inside gets through
        "it tried what the jail forbids: PermissionError: [Errno 1] Operation not permitted",
    )
    answer = wide.run(f"import os; os.kill({os.getpid()}, 0)")
    assert re.match("it raised ProcessLookupError|it tried what the jail forbids", answer.failure or "")
    assert value(wide, "answer = 7") == 7


@needs_jail
@pytest.mark.parametrize("starts", ["os.setsid()", "pass"])
def test_nothing_outlives_the_jail(starts):
    program = f"import os, time\nif not os.fork():\n    {starts}\n    time.sleep(600)\ntime.sleep(0.5)\nos._exit(0)"
    with IsolatedSandbox(programs, LIMITS, permissions=FORKING) as made, ThreadPoolExecutor(1) as aside:
        made.warm()
        [process] = made._idle
        before = set(family(process._popen.pid))
        judged, seen = aside.submit(made.run, program), set(before)
        while not judged.done():
            seen.update(family(process._popen.pid))
            time.sleep(0.01)
    assert len(seen) > len(before)  # the sleeper among them
    until(lambda: not any(map(is_alive, seen)))


@needs_jail
def test_a_listed_program_may_be_started():
    program = "import subprocess; answer = subprocess.run(['/bin/echo', 'x'], capture_output=True, text=True).stdout"
    with IsolatedSandbox(programs, LIMITS, permissions=Permissions(programs=("/bin/echo",))) as made:
        assert value(made, program) == "x\n"
        assert made.run("import subprocess, sys; subprocess.run([sys.executable])").failure


@needs_jail
def test_a_built_program_may_be_started_where_the_task_says_so():
    program = """
import shutil, subprocess
shutil.copy("/bin/echo", "mine")
answer = subprocess.run(["./mine", "x"], capture_output=True, text=True).stdout
"""
    with IsolatedSandbox(programs, LIMITS, permissions=Permissions(programs=("/bin/echo", "."))) as made:
        assert value(made, program) == "x\n"
    with IsolatedSandbox(programs, LIMITS, permissions=Permissions(programs=("/bin/echo",))) as made:
        assert "it tried what the jail forbids" in str(made.run(program).failure)


@needs_jail
@pytest.mark.parametrize("at", ["L3", "L2"])
def test_what_the_task_names_can_be_read_and_no_more(tmp_path, at):
    for name in ("named", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data").write_text("here")
    tmp_path.chmod(0o755)
    with IsolatedSandbox(
        programs, LIMITS, level=at, permissions=Permissions(read_paths=(str(tmp_path / "named"),))
    ) as made:
        assert value(made, f"answer = open('{tmp_path}/named/data').read()") == "here"
        assert made.run(f"open('{tmp_path}/named/data', 'w')").failure
        assert made.run(f"open('{tmp_path}/other/data')").failure


@needs_jail
def test_variables_reach_a_candidate_only_by_name(monkeypatch):
    monkeypatch.setenv("OTHER_KEY", "secret")
    with IsolatedSandbox(programs, LIMITS, permissions=Permissions(env={"DATA_KEY": "given"})) as made:
        assert value(made, "import os; answer = [os.environ.get('DATA_KEY'), os.environ.get('OTHER_KEY')]") == [
            "given",
            None,
        ]


@needs_jail
@pytest.mark.parametrize("at", ["L3", "L2"])
def test_the_network_is_there_only_where_the_task_says_so(at):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5); answer = 1"
        with IsolatedSandbox(programs, LIMITS, level=at, permissions=Permissions(network=True)) as made:
            assert value(made, program) == 1
        with IsolatedSandbox(programs, LIMITS, level=at) as made:
            assert "it tried what the jail forbids" in str(made.run(program).failure)


def test_the_executable_is_there(wide):
    assert value(wide, "import sys; answer = sys.executable") == sys.executable
