"""`atoll run --dashboard`: the run is seen in a browser while it lasts."""

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "survival"


def test_a_dashboard_stands_beside_a_run_and_ends_with_it(tmp_path):
    command = [sys.executable, "-m", "atoll", "run", str(EXAMPLE), "--episodes", "1", "--dashboard", "--linger", "300"]
    started = subprocess.Popen(
        [*command, "--store", str(tmp_path / "atoll.db")], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert started.stderr is not None
        address = next(
            found[0] for line in started.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+/\S*", line))
        )
        with urllib.request.urlopen(address, timeout=60) as page:
            assert b"<title>Atoll</title>" in page.read()
    finally:
        started.send_signal(2)
        _, said = started.communicate(timeout=120)
    assert started.returncode in (0, 1), said
