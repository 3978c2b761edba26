"""A real browser: one that is installed, else Playwright's own, else one that this machine can fetch."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Nothing of the browser's own may call home; a container has no sandbox for it, and no graphics.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-precise-memory-info",
)
ADVICE = (
    "These tests need a browser: install chromium (Debian: apt-get install chromium), or run "
    "'.venv/bin/python -m playwright install chromium', or set ATOLL_CHROMIUM to the path of one."
)


def find(playwright: Playwright) -> str:
    """Returns the path of a browser, or fails the test with what to do."""
    own = Path(playwright.chromium.executable_path)
    found = os.environ.get("ATOLL_CHROMIUM") or _installed() or (str(own) if own.exists() else _fetched())
    if not found:
        pytest.fail(ADVICE, pytrace=False)
    return found


def _installed() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


@functools.cache
def _fetched() -> str | None:
    """Installs one, where that is ours to do: as root, on Debian."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
        subprocess.run(command, check=False, capture_output=True, timeout=600)
    return _installed()
