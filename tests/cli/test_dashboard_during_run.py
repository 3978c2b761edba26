"""Options `--dashboard` and `--linger` of `run`."""

import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from tests import processes

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "survival"
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\S*")


def watch(*words, folder):
    """Runs a command with a dashboard and opens its page while it lasts."""
    output, store = folder / words[0], str(folder / "atoll.db")
    arguments = ["-m", "atoll", *words, "--dashboard", "--linger", "3", "--store", store]
    with output.open("wb") as screen:
        started = processes.start(arguments, stderr=screen, stdout=screen)
        try:
            while not (result := ADDRESS.search(output.read_text())):
                assert started.poll() is None, output.read_text()
                time.sleep(0.05)
            with urllib.request.urlopen(result[0], timeout=60) as page:
                assert b"<title>Atoll</title>" in page.read()
            assert started.wait(100) == 0, output.read_text()
        finally:
            started.kill()
            started.wait()


def test_dashboard_serves_during_run(tmp_path):
    watch("run", str(EXAMPLE), "--episodes", "1", folder=tmp_path)
    watch("resume", "latest", "--iterations", "1", folder=tmp_path)


@pytest.mark.parametrize("seconds", ["1e300", "inf"])
def test_linger_lasts_until_interrupted(seconds, tmp_path):
    program = (
        "from atoll.cli.run import survival_files; print('staying', flush=True); "
        f"survival_files.linger(float('{seconds}'))"
    )
    with (tmp_path / "out").open("wb") as out:
        lingering = processes.start(["-c", program], stdout=out)
    assert processes.wait_for_line(tmp_path / "out", lingering) == "staying"
    with pytest.raises(subprocess.TimeoutExpired):
        lingering.wait(0.5)
    lingering.send_signal(signal.SIGINT)
    assert lingering.wait(60) == 0
