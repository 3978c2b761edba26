"""How wide a jail is: what evaluators need beyond a processor and a folder."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from atoll.candidate import NOTHING

_STARTERS = ("subprocess", "multiprocessing", "joblib", "pexpect")
_STARTING_CALLS = ("ProcessPoolExecutor", "create_subprocess_exec", "create_subprocess_shell")
HERE = "."  # among the programs: what was built in the folder of the evaluation itself


@dataclass(frozen=True, slots=True)
class Profile:
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
    env: Mapping[str, str] = NOTHING
    reads: tuple[str, ...] = ()

    @property
    def may_start(self) -> bool:
        return self.may_fork or bool(self.programs)


NARROW = Profile()


def profile_of(source: str, folder: str | None = None) -> Profile:
    """Returns the profile that an evaluator's own source asks for.

    Args:
        source: Its text; one that is no Python asks for nothing.
        folder: Where it lies: may be read if the source names `__file__`, so that it finds its data.
    """
    try:
        names = set(_names(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError):
        return NARROW
    starts = any(name.partition(".")[0] in _STARTERS for name in names) or not names.isdisjoint(_STARTING_CALLS)
    return Profile(may_fork=starts, reads=(folder,) if folder and "__file__" in names else ())


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=module, names=names):
                yield module or ""
                yield from (alias.name for alias in names)
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name
