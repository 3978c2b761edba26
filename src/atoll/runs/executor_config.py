"""Where a plan's candidates are judged: its settings, and what this start of the run allows."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from atoll import config, errors, executor, sandbox

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE)


class UnsafeOptions(NamedTuple):
    """What whoever starts a run takes upon themselves; it holds for this start alone and is never stored.

    Attributes:
        unsafe: Candidates of a model may run with no jail.
        env: Variables that hold secrets, and that candidates may see all the same.
    """

    unsafe: bool = False
    env: Sequence[str] = ()


SAFE_OPTIONS = UnsafeOptions()


def make_executor_config(
    run_config: config.RunConfig, allowed: UnsafeOptions, *, has_llm: bool
) -> executor.ExecutorConfig:
    """Returns where candidates are judged.

    Raises:
        SetupError: Something that the settings name is not there, or is not allowed.
    """
    settings = run_config.sandbox
    permissions = sandbox.Permissions(
        programs=tuple(_find_program(name) for name in settings.programs),
        network=settings.network,
        env=_read_environment(settings.env, allowed.env),
        read_paths=tuple(_resolve_read_path(run_config.folder, name) for name in settings.read_paths),
    )
    ray_config = run_config.executor.to_ray_config()
    default_slots = min(run_config.run.workers, executor.cpu_count()) if ray_config is None else run_config.run.workers
    return executor.ExecutorConfig(
        settings.to_limits(),
        settings.slots or default_slots,
        settings.require,
        allowed.unsafe or not has_llm,
        settings.trusted,
        permissions,
        ray_config,
    )


def _read_environment(names: Sequence[str], allowed: Sequence[str]) -> Mapping[str, str]:
    for name in (*names, *allowed):
        if name not in os.environ:
            raise errors.SetupError(
                f"The evaluation wants the variable {name} of the environment, which is not set: "
                f"set it (export {name}=...), or take it out of sandbox.env."
            )
        if _SECRET.search(name) and name not in allowed:
            raise errors.SetupError(
                f"The variable {name} looks like a secret, and every candidate could read it: "
                f"allow that with --unsafe-env {name}, or take it out of sandbox.env."
            )
    return {name: os.environ[name] for name in (*names, *allowed)}


def _find_program(name: str) -> str:
    path = name if name == "." else shutil.which(name)
    if path is None:
        raise errors.SetupError(
            f"There is no program {name}, which sandbox.programs names: install it, or give its path."
        )
    return path


def _resolve_read_path(folder: Path, name: str) -> str:
    path = (folder / Path(name).expanduser()).absolute()
    if not path.exists():
        raise errors.SetupError(f"There is no {path}, which sandbox.read_paths names.")
    return str(path)
