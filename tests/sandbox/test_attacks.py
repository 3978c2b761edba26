"""Malicious candidates at L3 and L2, as root and as an unprivileged user."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

import atoll
from atoll import sandbox
from atoll.sandbox import IsolatedSandbox, Limits
from tests.sandbox import attacks, unprivileged
from tests.sandbox.helpers import make_program_job, run_program

LEVEL = sandbox.get_level(sandbox.probe())
LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000, disk_mb=32)
USERS_TESTS = ("test_attacks.py", "test_permissions.py", "test_leaks.py")
SECRET = "a secret of the user"

pytestmark = pytest.mark.skipif(LEVEL < "L2", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


class World:
    """Targets outside the sandbox: files, sockets and a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        names = ("home/.netrc", "atoll.db", "evaluator.py", "data.csv", "victim")
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(SECRET)
        self.stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(f"{os.path.relpath(folder)}/socket")
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0atoll-{os.getpid()}")

    def names(self) -> dict[str, Any]:
        paths = {"home": "home", "store": "atoll.db", "evaluator": "evaluator.py", "data": "data.csv"}
        paths |= {"victim": "victim", "outside": "", "unix": "socket", "other": "other"}
        result: dict[str, Any] = {name: str(self.folder / path) for name, path in paths.items()}
        result |= {"parent": os.getpid(), "stranger": self.stranger.pid, "port": self.tcp.getsockname()[1]}
        return result | {"abstract": f"atoll-{os.getpid()}", "package": os.path.dirname(str(atoll.__file__))}

    def state(self) -> object:
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        contents = [(path.name, path.read_text(), path.stat().st_mode, path.stat().st_mtime) for path in files]
        return contents, self.stranger.poll()

    def close(self) -> None:
        self.stranger.kill()
        self.stranger.wait()
        for item in (self.tcp, self.unix, self.abstract):
            item.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    box = World(tmp_path_factory.mktemp("world"))
    os.environ["ATOLL_TEST_KEY"] = "SECRET"
    yield box
    del os.environ["ATOLL_TEST_KEY"]
    box.close()


@pytest.fixture(scope="module", params=["L3", "L2"])
def isolated(request: pytest.FixtureRequest, world: World) -> Iterator[IsolatedSandbox]:
    if request.param > LEVEL:
        pytest.skip(" ".join(sandbox.describe_missing(sandbox.probe())))
    with IsolatedSandbox(make_program_job, LIMITS, level=request.param) as box:
        box.warm()
        yield box


@pytest.mark.parametrize("name", attacks.ALL)
def test_attack_is_contained_and_reported(isolated, world, name):
    before = world.state()
    attack = attacks.ALL[name]
    result = isolated.run(f"W = {world.names()!r}\n{attack.program}")
    if attack.failure:
        assert result.value is None
        assert re.match(attack.failure, result.failure or ""), f"{result.failure}\n{result.value}\n{result.output}"
    else:
        assert result.value == attack.answer, f"{result.failure}\n{result.output}"
    assert SECRET not in result.output
    assert world.state() == before
    assert run_program(isolated, "import os, math; answer = [os.listdir(), math.sqrt(4)]") == [[], 2.0]


def test_at_least_100_attacks():
    assert len(attacks.ALL) + len(attacks.TIME) >= 100


LEAVE_TRACES = """
import atexit, builtins, gc, json, math, os, random, signal, sys, threading, time
open("file", "w").write("left"); os.mkdir("folder"); os.symlink("/", "link")
os.environ["LEFT"] = "1"; sys.path.insert(0, os.getcwd()); sys.modules["left"] = sys
math.sqrt = json.dumps = builtins.len = lambda *_, **__: 99
random.seed(7); os.umask(0); signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.setrecursionlimit(50000)
threading.Thread(target=time.sleep, args=(600,)).start()
atexit.register(open, "/tmp/left", "w")
answer = 1
"""
CHECK_LEFTOVERS = """
import builtins, json, math, os, signal, sys, threading
answer = [os.listdir(), "LEFT" in os.environ, "left" in sys.modules, math.sqrt(4), builtins.len([1]), json.dumps(1),
          signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, sys.getrecursionlimit() < 50000, os.umask(0o22) == 0,
          threading.active_count()]
"""


def test_changes_do_not_reach_the_next_candidate(isolated):
    isolated.run(LEAVE_TRACES)
    assert run_program(isolated, CHECK_LEFTOVERS) == [[], False, False, 2.0, 1, "1", True, True, False, 1]


SHARED = """
import fcntl, os
fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)
os.lseek(1, 2**40, os.SEEK_SET)
try: os.chmod(".", 0o500)
except PermissionError: pass
"""


def test_shared_descriptors_are_restored(isolated):
    isolated.run(SHARED)
    result = isolated.run("print('here'); answer = open('file', 'w').write('mine')")
    assert (result.value, result.failure, result.output) == (4, None, "here\n")


DEEP = "import os\nfor depth in range(1200):\n    os.mkdir('d'); open('f', 'w').close(); os.chdir('d')"


def test_deeply_nested_folders_are_removed(isolated):
    with IsolatedSandbox(make_program_job, Limits(), level=isolated.level) as box:
        box.warm()
        [process] = box._idle
        run_program(box, DEEP)
        assert run_program(box, "import os; answer = os.listdir()") == []
        assert box._idle == [process]


def test_parallel_candidates_cannot_find_each_other(isolated):
    with IsolatedSandbox(make_program_job, LIMITS, num_workers=2, level=isolated.level) as box:
        thread = Thread(target=box.run, args=("open('mine', 'w').write('secret'); import time; time.sleep(0.5)",))
        thread.start()
        program = """
import os
answer = []
for folder, _, files in os.walk(os.path.dirname(os.path.dirname(os.getcwd()))):
    answer += [each for each in files if each == "mine"]
for pid in range(1, 400):
    try: os.kill(pid, 0); answer.append(pid)
    except OSError: pass
answer = [each for each in answer if each != os.getpid()]
"""
        assert run_program(box, program) == []
        thread.join()


@pytest.mark.parametrize("name", attacks.TIME)
def test_time_limit_cannot_be_evaded(isolated, name):
    with IsolatedSandbox(make_program_job, replace(LIMITS, seconds=0.3), level=isolated.level) as box:
        result = box.run(attacks.TIME[name].program)
        assert result.failure == attacks.TIME[name].failure
        assert run_program(box, "answer = 7") == 7


def test_processor_time_limit_cannot_be_ignored(isolated):
    with IsolatedSandbox(make_program_job, replace(LIMITS, cpu_seconds=1.0), level=isolated.level) as box:
        spin = "def spin():\n    while True: pass\nprint('so far')\nspin()"
        result = box.run(spin)
        assert result.failure == "it used more than 1 s of processor time"
        assert result.output.startswith("so far\n")
        assert re.search(r"\[sandbox\] limit of processor time: 1 s; used: \d", result.output)
        ignoring = f"import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n{spin}"
        assert box.run(ignoring).failure == "it used more than 1 s of processor time"


def test_time_limit_output_has_traceback_and_usage(isolated):
    with IsolatedSandbox(make_program_job, replace(LIMITS, seconds=0.3), level=isolated.level) as box:
        result = box.run("import time\ndef nap(): time.sleep(60)\nnap()")
        assert "in nap" in result.output
        assert re.search(r"\[sandbox\] limit of wall clock: 0.3 s; used: \d", result.output)


@pytest.mark.parametrize(
    "chosen",
    [
        "(reads or writes or others or trace or dodges or watcher) and not unprivileged",
        pytest.param("not unprivileged", marks=pytest.mark.slow),
    ],
)
def test_attacks_fail_as_unprivileged_user(tmp_path, chosen):
    if os.geteuid() != 0:
        pytest.skip("the tests already run as an unprivileged user")
    if LEVEL != "L3":
        pytest.skip("needs namespaces to make Python readable for another user")
    arguments = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        *(str(Path(__file__).with_name(name)) for name in USERS_TESTS),
    ]
    result = unprivileged.run([*arguments, "--basetemp", "{folder}/base", "-k", chosen], tmp_path)
    assert result.returncode == 0, result.stdout[-5000:]
    assert result.stdout.count(".") > 90
    assert "s" not in result.stdout.partition("[")[0]
