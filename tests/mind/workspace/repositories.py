"""Small git repositories for the tests."""

import hashlib
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

BROKEN = "def add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return 2 * a\n"
MENDED = BROKEN.replace("a - b", "a + b")
TESTS = """import unittest

import sums


class Sums(unittest.TestCase):
    def test_add(self):
        self.assertEqual(sums.add(2, 3), 5)

    def test_twice(self):
        self.assertEqual(sums.twice(4), 8)
"""
CLEAN = {
    "PATH": os.environ["PATH"],
    "HOME": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "LC_ALL": "C",
}
CLEAN |= {f"GIT_{role}_{part}": "user@here" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def git(folder: Path, *arguments: str) -> str:
    completed = subprocess.run(["git", *arguments], cwd=folder, env=CLEAN, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, (arguments, completed.stderr)
    return completed.stdout


def make_empty(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    return folder


def make_repository(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    """Makes a repository with one commit."""
    make_empty(folder)
    for path, text in (files or {"sums.py": BROKEN, "tests/test_sums.py": TESTS, "tests/__init__.py": ""}).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def get_state(folder: Path) -> str:
    """Returns the state of the main worktree: all files with times, the index and the branch."""
    entries = []
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name == ".git/index" or (not name.startswith(".git/") and name != ".git"):
            status = path.lstat()
            body = path.read_bytes() if path.is_file() else b""
            entries.append((name, status.st_mode, status.st_mtime_ns, status.st_ino, hashlib.sha256(body).hexdigest()))
    return repr((entries, git(folder, "rev-parse", "HEAD"), git(folder, "symbolic-ref", "HEAD")))


def list_leftovers(folder: Path) -> list[str]:
    """Returns leftovers of a run: worktrees, branches, locks, damage."""
    worktrees = [line for line in git(folder, "worktree", "list", "--porcelain").splitlines() if "worktree " in line]
    branches = git(folder, "for-each-ref", "--format=%(refname)", "refs/heads/atoll").split()
    locks = [str(path) for path in (folder / ".git").rglob("*.lock")]
    return [*worktrees[1:], *branches, *locks, *git(folder, "fsck", "--no-dangling").splitlines()]
