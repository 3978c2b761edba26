"""A world that somebody wrote: `env = "file.py:Name"`, a class or function in the task's folder that makes one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from atoll import errors
from atoll.sandbox import loading
from atoll.survival.worlds.world import World


def path_of(env: str, folder: Path) -> Path | None:
    """Returns the file that an env names, or None where it names a world of ours."""
    file, colon, _ = env.rpartition(":")
    return (folder / file).resolve() if colon and file.endswith(".py") else None


def make(env: str, folder: Path) -> Callable[[], World]:
    """Returns what makes the world; it is the task's own code and runs in this process.

    Raises:
        SetupError: There is no such file or name, or it does not load.
    """
    path, name = path_of(env, folder), env.rpartition(":")[2]
    if path is None or not path.is_file() or not path.is_relative_to(folder.resolve()):
        raise errors.SetupError(f"task.env is {env!r:.80}: name a file in the task's folder, file.py:Name.")
    loaded = errors.attempt(lambda: loading.load(str(path), "atoll_world"), passing=())
    if isinstance(loaded, errors.Caught):
        raise errors.SetupError(f"{path.name} cannot be loaded: {loaded!s:.200}.")
    made: Any = getattr(loaded, name, None)
    if not callable(made):
        raise errors.SetupError(f"{path.name} has no {name!r:.60} that makes a world.")
    return made  # type: ignore[no-any-return]
