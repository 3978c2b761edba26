"""The documentation site builds without warnings."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.process
def test_site_builds_without_warnings():
    command = [sys.executable, str(ROOT / "scripts" / "docs")]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert (ROOT / "site" / "html" / "index.html").is_file()
    assert "WARNING" not in result.stdout + result.stderr
