import os
import sys
import time
from pathlib import Path

import pytest

from bench import metering

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the meter reads /proc")

BURN = "import time\nwhile time.process_time() < 0.3: pass\n"
# A parent that waits for one child and outlives it, and does nothing itself.
FAMILY = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {BURN!r}])\ntime.sleep(0.2)\n"


def meter(script: str, folder: Path, limit_seconds: float = 60.0) -> metering.Metered:
    command = [sys.executable, "-c", script]
    return metering.metered(command, folder=folder, environment=os.environ, limit_seconds=limit_seconds)


@pytest.mark.parametrize("script", [BURN, FAMILY])
def test_meter_counts_time_of_process_and_children(script, tmp_path):
    found = meter(script, tmp_path)
    assert found.status == 0
    assert 0.3 <= found.cpu_seconds < 3
    assert found.used[-1] == pytest.approx(found.cpu_seconds, abs=0.1)
    assert list(found.used) == sorted(found.used)
    assert found.used_at(found.began) == 0
    assert found.used_at(found.when[-1] + 1) == found.used[-1]


def test_meter_counts_time_of_unreaped_child(tmp_path):
    left = f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', {BURN!r}])\n"
    found = meter(f"{left}time.sleep(2)\n__import__('os')._exit(0)", tmp_path)
    assert 0.3 <= found.cpu_seconds < 3


def test_meter_keeps_output_and_exit_status(tmp_path):
    found = meter("import sys\nprint('said')\nsys.exit('and complained')", tmp_path)
    assert (found.status, sorted(found.output.split("\n"))) == (1, ["", "and complained", "said"])


def test_meter_kills_slow_command_with_its_children(tmp_path):
    script = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    found = meter(f"{script}print(child.pid, flush=True)\nchild.wait()", tmp_path, limit_seconds=1.0)
    assert found.status == -9
    assert is_gone(int(found.output))


def is_gone(pid: int) -> bool:
    """Waits a little: an orphan is there until init has seen that it is dead."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
