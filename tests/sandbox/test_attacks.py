"""Candidates that mean harm: at L3 and L2, as root and as an ordinary user."""

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
from tests.sandbox import attacks, ordinary
from tests.sandbox.boxes import programs, value

LEVEL = sandbox.get_level(sandbox.probe())
LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000, disk_mb=32)
USERS_TESTS = ("test_attacks.py", "test_profiles.py")
SECRET = "a secret of the user"

pytestmark = pytest.mark.skipif(LEVEL < "L2", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


class World:
    """What lies around a jail, worth reading, writing or killing."""

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
        found: dict[str, Any] = {name: str(self.folder / path) for name, path in paths.items()}
        found |= {"parent": os.getpid(), "stranger": self.stranger.pid, "port": self.tcp.getsockname()[1]}
        return found | {"abstract": f"atoll-{os.getpid()}", "package": os.path.dirname(str(atoll.__file__))}

    def state(self) -> object:
        files = [path for path in sorted(self.folder.rglob("*")) if path.is_file()]
        seen = [(path.name, path.read_text(), path.stat().st_mode, path.stat().st_mtime) for path in files]
        return seen, self.stranger.poll()

    def close(self) -> None:
        self.stranger.kill()
        self.stranger.wait()
        for each in (self.tcp, self.unix, self.abstract):
            each.close()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    os.environ["ATOLL_TEST_KEY"] = "SECRET"
    yield made
    del os.environ["ATOLL_TEST_KEY"]
    made.close()


@pytest.fixture(scope="module", params=["L3", "L2"])
def jail(request: pytest.FixtureRequest, world: World) -> Iterator[IsolatedSandbox]:
    if request.param > LEVEL:
        pytest.skip(" ".join(sandbox.describe_missing(sandbox.probe())))
    with IsolatedSandbox(programs, LIMITS, level=request.param) as made:
        made.warm()
        yield made


@pytest.mark.parametrize("name", attacks.ALL)
def test_an_attack_is_contained_and_reported_as_what_it_is(jail, world, name):
    before = world.state()
    attack = attacks.ALL[name]
    answer = jail.run(f"W = {world.names()!r}\n{attack.program}")
    if attack.failure:
        assert answer.value is None
        assert re.match(attack.failure, answer.failure or ""), f"{answer.failure}\n{answer.value}\n{answer.output}"
    else:
        assert answer.value == attack.answer, f"{answer.failure}\n{answer.output}"
    assert SECRET not in answer.output
    assert world.state() == before
    assert value(jail, "import os, math; answer = [os.listdir(), math.sqrt(4)]") == [[], 2.0]


def test_there_are_at_least_forty():
    assert len(attacks.ALL) + len(attacks.TIME) >= 100


LEFT = """
import atexit, builtins, gc, json, math, os, random, signal, sys, threading, time
open("file", "w").write("left"); os.mkdir("folder"); os.symlink("/", "link")
os.environ["LEFT"] = "1"; sys.path.insert(0, os.getcwd()); sys.modules["left"] = sys
math.sqrt = json.dumps = builtins.len = lambda *_, **__: 99
random.seed(7); os.umask(0); signal.signal(signal.SIGTERM, signal.SIG_IGN); sys.setrecursionlimit(50000)
threading.Thread(target=time.sleep, args=(600,)).start()
atexit.register(open, "/tmp/left", "w")
answer = 1
"""
FOUND = """
import builtins, json, math, os, signal, sys, threading
answer = [os.listdir(), "LEFT" in os.environ, "left" in sys.modules, math.sqrt(4), builtins.len([1]), json.dumps(1),
          signal.getsignal(signal.SIGTERM) == signal.SIG_DFL, sys.getrecursionlimit() < 50000, os.umask(0o22) == 0,
          threading.active_count()]
"""


def test_nothing_is_left_for_the_next_candidate(jail):
    jail.run(LEFT)
    assert value(jail, FOUND) == [[], False, False, 2.0, 1, "1", True, True, False, 1]


SHARED = """
import fcntl, os
fcntl.fcntl(1, fcntl.F_SETFL, os.O_DIRECT)
os.lseek(1, 2**40, os.SEEK_SET)
try: os.chmod(".", 0o500)
except PermissionError: pass
"""


def test_what_candidates_share_is_put_right_for_the_next(jail):
    jail.run(SHARED)
    answer = jail.run("print('here'); answer = open('file', 'w').write('mine')")
    assert (answer.value, answer.failure, answer.output) == (4, None, "here\n")


DEEP = "import os\nfor depth in range(1200):\n    os.mkdir('d'); open('f', 'w').close(); os.chdir('d')"


def test_a_deep_nest_of_folders_is_removed_without_a_new_zygote(jail):
    with IsolatedSandbox(programs, Limits(), level=jail.level) as made:
        made.warm()
        [process] = made._idle
        value(made, DEEP)
        assert value(made, "import os; answer = os.listdir()") == []
        assert made._idle == [process]


def test_two_candidates_at_once_do_not_find_each_other(jail):
    with IsolatedSandbox(programs, LIMITS, num_workers=2, level=jail.level) as made:
        thread = Thread(target=made.run, args=("open('mine', 'w').write('secret'); import time; time.sleep(0.5)",))
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
        assert value(made, program) == []
        thread.join()


@pytest.mark.parametrize("name", attacks.TIME)
def test_time_runs_out_for_everybody(jail, name):
    with IsolatedSandbox(programs, replace(LIMITS, seconds=0.3), level=jail.level) as made:
        answer = made.run(attacks.TIME[name].program)
        assert answer.failure == attacks.TIME[name].failure
        assert value(made, "answer = 7") == 7


def test_processor_time_runs_out_even_if_its_warning_is_ignored(jail):
    with IsolatedSandbox(programs, replace(LIMITS, cpu_seconds=1.0), level=jail.level) as made:
        spin = "def spin():\n    while True: pass\nprint('so far')\nspin()"
        answer = made.run(spin)
        assert answer.failure == "it used more than 1 s of processor time"
        assert answer.output.startswith("so far\n")
        assert re.search(r"\[jail\] limit of processor time: 1 s; used: \d", answer.output)
        ignoring = f"import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n{spin}"
        assert made.run(ignoring).failure == "it used more than 1 s of processor time"


def test_a_limit_of_time_explains_itself(jail):
    with IsolatedSandbox(programs, replace(LIMITS, seconds=0.3), level=jail.level) as made:
        answer = made.run("import time\ndef nap(): time.sleep(60)\nnap()")
        assert "in nap" in answer.output
        assert re.search(r"\[jail\] limit of wall clock: 0.3 s; used: \d", answer.output)


@pytest.mark.parametrize(
    "chosen", ["(reads or writes or others) and not ordinary", pytest.param("not ordinary", marks=pytest.mark.slow)]
)
def test_an_ordinary_user_is_guarded_alike(tmp_path, chosen):
    if os.geteuid() != 0:
        pytest.skip("these tests run as an ordinary user already")
    if LEVEL != "L3":
        pytest.skip("needs namespaces to show Python to another user")
    arguments = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--import-mode=importlib",
        *(str(Path(__file__).with_name(name)) for name in USERS_TESTS),
    ]
    found = ordinary.run([*arguments, "--basetemp", "{folder}/base", "-k", chosen], tmp_path)
    assert found.returncode == 0, found.stdout[-5000:]
    assert found.stdout.count(".") > 90
    assert "s" not in found.stdout.partition("[")[0]
