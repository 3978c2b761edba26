"""A world that somebody wrote: `env = "file.py:Name"`, a class or function in the task's folder that makes one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from atoll import errors
from atoll.sandbox import loading
from atoll.survival.worlds.world import World


def get_world_path(env: str, folder: Path) -> Path | None:
    """Returns the file that an env names, or None where it names a world of ours."""
    file, colon, _ = env.rpartition(":")
    return (folder / file).resolve() if colon and file.endswith(".py") else None


def load_world_factory(env: str, folder: Path) -> Callable[[], World]:
    """Returns what makes the world; it is the task's own code and runs in this process.

    Raises:
        SetupError: There is no such file or name, or it does not load.
    """
    path, name = get_world_path(env, folder), env.rpartition(":")[2]
    if path is None or not path.is_file() or not path.is_relative_to(folder.resolve()):
        raise errors.SetupError(f"task.env is {env!r:.80}: name a file in the task's folder, file.py:Name.")
    module = errors.capture(lambda: loading.load_module(str(path), "atoll_world"), reraise=())
    if isinstance(module, errors.CaughtException):
        raise errors.SetupError(f"{path.name} cannot be loaded: {module!s:.200}.")
    factory: Any = getattr(module, name, None)
    if not callable(factory):
        raise errors.SetupError(f"{path.name} has no {name!r:.60} that makes a world.")
    return factory  # type: ignore[no-any-return]
