"""Finds Chromium: installed, from Playwright, or from the package manager."""

import functools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# No background requests; containers have no sandbox and no graphics.
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
    """Returns the path of a browser, or fails the test with instructions."""
    own = Path(playwright.chromium.executable_path)
    result = os.environ.get("ATOLL_CHROMIUM") or _find_installed() or (str(own) if own.exists() else _install())
    if not result:
        pytest.fail(ADVICE, pytrace=False)
    return result


def _find_installed() -> str | None:
    return next((path for path in map(shutil.which, NAMES) if path), None)


@functools.cache
def _install() -> str | None:
    """Installs Chromium if this is Debian and the user is root."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]):
        subprocess.run(command, check=False, capture_output=True, timeout=600)
    return _find_installed()
