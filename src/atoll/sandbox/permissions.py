"""Permissions of a sandbox, and the paths that it can read."""

import ast
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from atoll.candidate import EMPTY
from atoll.sandbox import job_pickle

_PROCESS_MODULES = ("subprocess", "multiprocessing", "joblib", "pexpect")
_PROCESS_CALLS = ("ProcessPoolExecutor", "create_subprocess_exec", "fork", "posix_spawn", "spawnv", "spawnl")
_SHELL_CALLS = ("os.system", "os.popen", "getoutput", "getstatusoutput", "create_subprocess_shell")
_SHELL = "/bin/sh"
_SELF_READING_NAMES = ("__file__", "getsource")
BUILT_PROGRAMS = "."  # in `programs`: programs that were built in the scratch folder


@dataclass(frozen=True, slots=True)
class Permissions:
    """Permissions beyond the defaults. They come from the trusted task and evaluator, never from a candidate.

    Attributes:
        may_fork: Whether candidates may fork and start this Python.
        programs: Paths of other programs that candidates may start; `.`: programs built in the scratch folder.
        network: Whether the network is available.
        env: Environment variables that candidates see.
        read_paths: Readable files and folders, in addition to those that Python needs.
    """

    may_fork: bool = False
    programs: tuple[str, ...] = ()
    network: bool = False
    env: Mapping[str, str] = EMPTY
    read_paths: tuple[str, ...] = ()

    @property
    def may_start(self) -> bool:
        return self.may_fork or bool(self.programs)


DEFAULT_PERMISSIONS = Permissions()


def permissions_from_source(source: str, folder: str | None = None) -> Permissions:
    """Returns the permissions that an evaluator needs, derived from its source.

    An evaluator that runs shell commands gets a shell, which can start only the programs that the evaluator may start.

    Args:
        source: Source of the evaluator; invalid Python needs nothing.
        folder: Folder of the evaluator; readable if the source uses `__file__` or imports a module from the folder.
    """
    try:
        tree = ast.parse(source)
        imported = set(_iter_imports(tree))
        names = imported.union(_iter_names(tree))
    except (SyntaxError, ValueError, RecursionError):
        return DEFAULT_PERMISSIONS
    starts_processes = any(name.partition(".")[0] in _PROCESS_MODULES for name in names) or not names.isdisjoint(
        _PROCESS_CALLS
    )
    uses_shell = not names.isdisjoint(_SHELL_CALLS)
    reads_folder = folder and (
        not names.isdisjoint(_SELF_READING_NAMES) or any(_is_module_in(folder, name) for name in imported)
    )
    return Permissions(
        may_fork=starts_processes or uses_shell,
        programs=(_SHELL,) if uses_shell else (),
        read_paths=(folder,) if folder and reads_folder else (),
    )


def _is_module_in(folder: str, name: str) -> bool:
    module = os.path.join(folder, name.partition(".")[0])
    return os.path.isfile(f"{module}.py") or os.path.isfile(os.path.join(module, "__init__.py"))


def _iter_imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield module or ""
                yield from (name for alias in names for name in (alias.name, f"{module}.{alias.name}"))
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def _iter_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name):
                yield from (name, f"{owner}.{name}")
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                yield "os.system"


_SYSTEM_FOLDERS = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/usr/share/ca-certificates")
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1")
_MAX_LIBRARIES = 500
_ATOLL_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES_FOLDER = os.path.dirname(_ATOLL_FOLDER)  # for `sys.path`: a checkout need not be installed


class ReadablePaths(NamedTuple):
    """Paths that candidates may read, and programs that they may start; lists, because they are sent as JSON."""

    readable: list[str]
    startable: list[str]


def find_readable_paths(permissions: Permissions) -> ReadablePaths:
    """Returns the existing paths on this machine, outermost folders only."""
    startable = [
        *(_iter_python_executables() if permissions.may_fork else ()),
        *(path for path in permissions.programs if path != BUILT_PROGRAMS),
    ]
    if permissions.may_start:
        startable += [*_LOADERS, *(os.path.realpath(path) for path in (*startable, *_LOADERS))]
    paths = {*_iter_python_paths(), *_SYSTEM_FOLDERS, *_SYSTEM_FILES, *permissions.read_paths, *startable}
    paths |= set(_NETWORK_FILES if permissions.network else ())
    existing = sorted(os.path.abspath(path) for path in paths if os.path.exists(path))
    # A link stays at its path, even inside a folder of the list.
    outermost = [path for path in existing if not any(path != other and _is_below(path, other) for other in existing)]
    return ReadablePaths(outermost, sorted({path for path in startable if os.path.exists(path)}))


def _iter_python_paths() -> Iterator[str]:
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64"))
    yield os.path.join(sys.prefix, "pyvenv.cfg")
    yield _ATOLL_FOLDER
    yield from (path for path in sys.path if job_pickle.contains_packages(path))
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        yield from _iter_libraries(folder)


def _iter_libraries(folder: str) -> Iterator[str]:
    """Yields the shared libraries of a folder, which may also hold other files."""
    try:
        names = sorted(os.listdir(folder)) if folder else []
    except OSError:
        return
    libraries = [name for name in names if name.endswith(".so") or ".so." in name]
    yield from (os.path.join(folder, name) for name in libraries[:_MAX_LIBRARIES])


def _iter_python_executables() -> Iterator[str]:
    """Returns this Python by all names that evaluators start it by."""
    yield from {sys.executable, getattr(sys, "_base_executable", sys.executable)}
    aliases = (os.path.join(os.path.dirname(sys.executable), name) for name in ("python", "python3"))
    yield from (path for path in aliases if os.path.exists(path) and os.path.samefile(path, sys.executable))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")
