"""Limits of disk and memory that candidates try to dodge, and traces that they try to leave for their successors."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from atoll import errors, sandbox
from atoll.sandbox import IsolatedSandbox, Limits, Permissions
from atoll.sandbox.process import scratch_dir
from tests.sandbox.helpers import make_program_job, run_program

LEVEL = sandbox.get_level(sandbox.probe())
LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000, disk_mb=32)
CHUNK = "b'x' * 2**24"
WRITE = f"""
for number in range(40):
    fd = os.open(f'x{{number}}', os.O_CREAT | os.O_RDWR)
    os.write(fd, {CHUNK}); os.close(fd); time.sleep(0.03)
answer = 'written'
"""
# Each writes 640 MiB, if it can.
DODGES = {
    "removed but open": f"""
import os, time
for number in range(40):
    fd = os.open('x', os.O_CREAT | os.O_RDWR); os.unlink('x')
    os.write(fd, {CHUNK}); time.sleep(0.03)
answer = 'written'
""",
    "without a name": f"""
import os, time
for number in range(40):
    fd = os.open('.', os.O_TMPFILE | os.O_RDWR)
    os.write(fd, {CHUNK}); time.sleep(0.03)
answer = 'written'
""",
    "a folder that cannot be listed": "import os, time; os.mkdir('d', 0o300); os.chdir('d')" + WRITE,
    "a hidden folder": "import os, time; os.umask(0o777); os.mkdir('d'); os.umask(0)" + WRITE,
    "a very long path": "import os, time\nfor _ in range(60): os.mkdir('d' * 200); os.chdir('d' * 200)" + WRITE,
    "a trickle of results": """
import os, threading, time
def trickle():
    while True: os.write(3, b'x'); time.sleep(0.01)
threading.Thread(target=trickle, daemon=True).start()
"""
    + WRITE,
    "removed but mapped": """
import mmap, os, time
maps = []
for number in range(40):
    fd = os.open('x', os.O_CREAT | os.O_RDWR); os.ftruncate(fd, 2**24)
    maps.append(mmap.mmap(fd, 2**24)); os.unlink('x'); os.close(fd)
    maps[-1][:] = b'x' * 2**24; time.sleep(0.03)
answer = 'written'
""",
    "inside a socket": f"""
import os, socket, time
left, right = socket.socketpair()
for number in range(40):
    fd = os.open('x', os.O_CREAT | os.O_RDWR); os.unlink('x'); os.write(fd, {CHUNK})
    socket.send_fds(left, [b'x'], [fd]); os.close(fd); time.sleep(0.03)
answer = 'written'
""",
    "reserved without writing": """
import os, time
for number in range(40):
    fd = os.open(f'x{number}', os.O_CREAT | os.O_RDWR); os.posix_fallocate(fd, 0, 2**24); os.close(fd)
answer = 'written'
""",
    "the output": f"import os, time\nfor _ in range(40): os.write(1, {CHUNK}); time.sleep(0.03)\nanswer = 'written'",
}
OBSERVE = """
import fcntl, os, resource, struct
def hint(fd):
    try: return struct.unpack('Q', fcntl.fcntl(fd, 1035, struct.pack('Q', 0)))[0]
    except OSError: return None
output, folder = os.fstat(1), os.stat('.')
answer = [output.st_mode, output.st_size, output.st_mtime < 10, output.st_atime < 10, folder.st_mode, folder.st_mtime,
          folder.st_atime, folder.st_size, os.listdir('.'), hint(1), os.umask(0o22),
          fcntl.fcntl(1, fcntl.F_GETFL), os.lseek(1, 0, 1), resource.getrlimit(resource.RLIMIT_NOFILE)]
"""
TRACES = {
    "modes": "import os; os.fchmod(1, 0o4765); os.chmod('.', 0o751)",
    "times": "import os; os.utime(1, (5, 6)); os.utime('.', (7, 8))",
    "hints": "import fcntl, os, struct\nfor fd in (1, os.open('.', 0)): fcntl.fcntl(fd, 1036, struct.pack('Q', 3))",
    "flags": "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK); os.lseek(1, 77, 0); os.umask(0o77)",
    "leases and locks": "import fcntl; fcntl.flock(1, fcntl.LOCK_EX); fcntl.fcntl(1, 1024, fcntl.F_WRLCK)",
    "many files": "import os\nfor n in range(3000): os.close(os.open(f'{n:0200}', os.O_CREAT | os.O_WRONLY))",
    "limits and timers": """
import os, resource, signal
signal.setitimer(signal.ITIMER_REAL, 0.05)
for kind in range(16):
    try: resource.setrlimit(kind, (1, 1))
    except (OSError, ValueError): pass
os._exit(0)
""",
    "output": "import os; os.write(1, b'x' * 5000); os.ftruncate(1, 3)",
}
pytestmark = pytest.mark.skipif(LEVEL < "L2", reason=" ".join(sandbox.describe_missing(sandbox.probe())))


@pytest.fixture(params=[level for level in ("L3", "L2") if level <= LEVEL])
def box(request: pytest.FixtureRequest) -> Iterator[IsolatedSandbox]:
    with IsolatedSandbox(make_program_job, LIMITS, level=request.param) as isolated:
        yield isolated


def test_no_file_dodges_the_disk_limit(box: IsolatedSandbox) -> None:
    for name, program in DODGES.items():
        result = box.run(program)
        assert result.value is None, name
        assert result.failure is not None, name
    assert run_program(box, "open('x', 'wb').write(bytes(2**24)); answer = 'fits'") == "fits"


def test_candidates_leave_no_trace_for_the_next(box: IsolatedSandbox) -> None:
    before = run_program(box, OBSERVE)
    for name, program in TRACES.items():
        box.run(program)  # parts of it may be refused
        assert run_program(box, OBSERVE) == before, name


MANY_PROCESSES = """
import os, time
for _ in range(6):
    if not os.fork():
        data = bytearray(b'x' * (100 * 2**20)); time.sleep(10); os._exit(0)
time.sleep(10); answer = 'used'
"""
SHARED_MEMORY = """
import os
data = bytearray(b'x' * (60 * 2**20))
for _ in range(6):
    if not os.fork(): os._exit(0)
answer = 1
"""
FORKS = """
import os, time
answer = 0
for _ in range(40):
    try:
        if not os.fork(): time.sleep(10); os._exit(0)
        answer += 1
    except OSError: break
time.sleep(1)
"""


@pytest.mark.parametrize("level", [level for level in ("L3", "L2") if level <= LEVEL])
@pytest.mark.parametrize(
    "has_groups", [True, False] if os.geteuid() == 0 else [False], ids=lambda on: ("watcher", "groups")[on]
)
def test_processes_of_a_candidate_share_one_limit(
    level: str, has_groups: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not has_groups:
        monkeypatch.setattr(scratch_dir, "CGROUP_FOLDER", str(tmp_path))
    permissions = Permissions(may_fork=True)
    limits = Limits(seconds=15.0, memory_mb=256, output_bytes=10_000, disk_mb=32, num_processes=8)
    with IsolatedSandbox(make_program_job, limits, level=level, permissions=permissions) as isolated:
        warmed = errors.capture(isolated.warm, reraise=())
        if level == "L2" and os.geteuid() == 0 and isinstance(warmed, errors.CaughtException):
            assert "could not be limited" in str(warmed)  # no other user can read this Python
            return
        [process] = isolated._idle
        if (process._group is not None) != has_groups:  # type: ignore[attr-defined]
            pytest.skip("this machine or user has no control groups")
        assert isolated.run(MANY_PROCESSES).failure == "its processes used more than 256 MiB in all"
        assert run_program(isolated, SHARED_MEMORY) == 1
        forked = isolated.run(FORKS)
        assert forked.failure == "it had more than 8 processes" or 4 <= forked.value <= 11  # type: ignore[operator]
