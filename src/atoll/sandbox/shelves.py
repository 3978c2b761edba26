"""What of the disk Python needs to run: the only part of it that a jail has."""

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from atoll.sandbox import parcel
from atoll.sandbox.profiles import BUILT_PROGRAMS, Permissions

_SYSTEM_FOLDERS = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/usr/share/ca-certificates")
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1")
_ATOLL_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES_FOLDER = os.path.dirname(_ATOLL_FOLDER)  # where Atoll itself is found; a checkout need not be installed


class ReadablePaths(NamedTuple):
    """Paths by what may be done with them; lists, as they travel to the zygote as JSON."""

    readable: list[str]
    startable: list[str]


def find_readable_paths(permissions: Permissions) -> ReadablePaths:
    """Returns what there is on this machine, outermost folders only."""
    startable = [*(_iter_python_executables() if permissions.may_fork else ()), *(path for path in permissions.programs if path != BUILT_PROGRAMS)]
    if permissions.may_start:
        startable += [*_LOADERS, *(os.path.realpath(path) for path in (*startable, *_LOADERS))]
    paths = {*_iter_python_paths(), *_SYSTEM_FOLDERS, *_SYSTEM_FILES, *permissions.read_paths, *startable}
    paths |= set(_NETWORK_FILES if permissions.network else ())
    existing = sorted(os.path.abspath(path) for path in paths if os.path.exists(path))
    # A link keeps its place, even below a folder that is there.
    outermost = [path for path in existing if not any(path != other and _is_below(path, other) for other in existing)]
    return ReadablePaths(outermost, sorted({path for path in startable if os.path.exists(path)}))


def _iter_python_paths() -> Iterator[str]:
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64"))
    yield os.path.join(sys.prefix, "pyvenv.cfg")
    yield _ATOLL_FOLDER
    yield from (path for path in sys.path if parcel.contains_packages(path))
    yield from (path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path)


def _iter_python_executables() -> Iterator[str]:
    """Returns this Python by all names that evaluators start it by."""
    yield from {sys.executable, getattr(sys, "_base_executable", sys.executable)}
    aliases = (os.path.join(os.path.dirname(sys.executable), name) for name in ("python", "python3"))
    yield from (path for path in aliases if os.path.exists(path) and os.path.samefile(path, sys.executable))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
