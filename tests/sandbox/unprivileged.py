"""Runs Python as an unprivileged user, even if that user cannot read its folder."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from atoll.sandbox.linux import system_calls

UID = 1000
ROOT = Path(__file__).resolve().parents[2]


def run(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs Python as user 1000; `{folder}` in the arguments becomes a folder of that user. Needs root."""
    own = tempfile.mkdtemp(prefix="user-", dir="/tmp")
    os.chown(own, UID, UID)
    try:
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.sandbox.unprivileged",
                *(argument.replace("{folder}", own) for argument in arguments),
            ],
            cwd=ROOT,
            env={"PATH": os.defpath, "HOME": own, "TMPDIR": own, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    finally:
        subprocess.run(["rm", "-rf", own], check=True)


def main() -> None:
    """Makes Python readable in private mounts, becomes the user and starts Python."""
    system_calls.unshare(system_calls.NEW_MOUNTS)
    system_calls.mount("none", "/", "", system_calls.RECURSIVE | system_calls.PRIVATE)
    for path in {sys.base_prefix, sys.prefix, str(ROOT)}:
        _open_way(path)
    os.setgroups([])
    os.setresgid(UID, UID, UID)
    os.setresuid(UID, UID, UID)
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


def _open_way(path: str) -> None:
    """Mounts a readable folder over the first closed parent of a path, and the path itself inside it."""
    for above in reversed(Path(path).parents):
        if not above.stat().st_mode & stat.S_IXOTH:
            retained = tempfile.mkdtemp(dir="/tmp")
            system_calls.mount(path, retained, "", system_calls.BIND | system_calls.RECURSIVE)
            system_calls.mount("tmpfs", str(above), "tmpfs", 0, "mode=0755")
            os.makedirs(path)
            system_calls.mount(retained, path, "", system_calls.BIND | system_calls.RECURSIVE)
            system_calls.call("umount2", retained.encode(), 2)
            os.rmdir(retained)
            return


if __name__ == "__main__":
    main()
