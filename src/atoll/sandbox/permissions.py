"""How wide a jail is: what evaluators need beyond a processor and a folder."""

import ast
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from atoll.candidate import EMPTY

_PROCESS_MODULES = ("subprocess", "multiprocessing", "joblib", "pexpect")
_PROCESS_CALLS = ("ProcessPoolExecutor", "create_subprocess_exec", "fork", "posix_spawn", "spawnv", "spawnl")
_SHELL_CALLS = ("os.system", "os.popen", "getoutput", "getstatusoutput", "create_subprocess_shell")
_SHELL = "/bin/sh"
_SELF_READING_NAMES = ("__file__", "getsource")  # beside itself, or at itself
BUILT_PROGRAMS = "."  # among the programs: what was built in the folder of the evaluation itself


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a jail allows beyond its usual; the task and its evaluator say so, which the user trusts, no candidate.

    Attributes:
        may_fork: Processes may be forked, and this Python may be started.
        programs: Paths of other programs that may be started; `.`: what is built in the evaluation's own folder.
        network: The network is as it is outside.
        env: Variables of the environment that candidates see.
        reads: Files and folders that may be read, beside those that Python itself needs.
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
    """Returns the profile that an evaluator's own source asks for.

    Args:
        source: Its text; one that is no Python asks for nothing.
        folder: Where it lies: may be read if the source names `__file__`, so that it finds its data, or imports a
            module that lies beside it, maybe late.

    One that runs commands gets a shell to run them in, which can start no more than the evaluator can itself.
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
