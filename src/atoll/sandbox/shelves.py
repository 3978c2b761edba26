"""What of the disk Python needs to run: the only part of it that a jail has."""

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from atoll.sandbox import parcel
from atoll.sandbox.profiles import HERE, Profile

_SYSTEM = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/usr/share/ca-certificates")
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1")
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES = os.path.dirname(_OWN)  # where Atoll itself is found; a checkout need not be installed


class Shelves(NamedTuple):
    """Paths by what may be done with them; lists, as they travel to the zygote as JSON."""

    readable: list[str]
    startable: list[str]


def of(profile: Profile) -> Shelves:
    """Returns what there is on this machine, outermost folders only."""
    startable = [*(_own_programs() if profile.may_fork else ()), *(each for each in profile.programs if each != HERE)]
    if profile.may_start:
        startable += [*_LOADERS, *(os.path.realpath(each) for each in (*startable, *_LOADERS))]
    wanted = {*_python(), *_SYSTEM, *_SYSTEM_FILES, *profile.reads, *startable}
    wanted |= set(_NETWORK_FILES if profile.network else ())
    there = sorted(os.path.abspath(each) for each in wanted if os.path.exists(each))
    # A link keeps its place, even below a folder that is there.
    outermost = [each for each in there if not any(each != other and _is_below(each, other) for other in there)]
    return Shelves(outermost, sorted({each for each in startable if os.path.exists(each)}))


def _python() -> Iterator[str]:
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64"))
    yield os.path.join(sys.prefix, "pyvenv.cfg")
    yield _OWN
    yield from (path for path in sys.path if parcel.holds_packages(path))
    yield from (path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path)


def _own_programs() -> Iterator[str]:
    """Returns this Python by all names that evaluators start it by."""
    yield from {sys.executable, getattr(sys, "_base_executable", sys.executable)}
    named = (os.path.join(os.path.dirname(sys.executable), name) for name in ("python", "python3"))
    yield from (path for path in named if os.path.exists(path) and os.path.samefile(path, sys.executable))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
