"""Executor of a run: its settings, and the safety checks that the user waives."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from atoll import config, errors, executor, sandbox

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE)


class UnsafeOptions(NamedTuple):
    """Safety checks that the user waives. Valid for one start only, never stored.

    Attributes:
        unsafe: LLM-written code may run without a sandbox.
        env: Secret environment variables that candidates may read.
    """

    unsafe: bool = False
    env: Sequence[str] = ()


SAFE_OPTIONS = UnsafeOptions()


def make_executor_config(
    run_config: config.RunConfig, allowed: UnsafeOptions, *, has_llm: bool
) -> executor.ExecutorConfig:
    """Returns the executor configuration of a run.

    Raises:
        SetupError: A program, path or variable of the settings is missing or not allowed.
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
        settings.scoring,
        ray_config,
        executor.RayStats() if ray_config is not None else None,
    )


def _read_environment(names: Sequence[str], allowed: Sequence[str]) -> Mapping[str, str]:
    for name in (*names, *allowed):
        if name not in os.environ:
            raise errors.SetupError(
                f"Environment variable {name} is not set. Set it (export {name}=...), or remove it from sandbox.env."
            )
        if _SECRET.search(name) and name not in allowed:
            raise errors.SetupError(
                f"Environment variable {name} looks like a secret, and every candidate could read it. "
                f"Allow it with --unsafe-env {name}, or remove it from sandbox.env."
            )
    return {name: os.environ[name] for name in (*names, *allowed)}


def _find_program(name: str) -> str:
    path = name if name == "." else shutil.which(name)
    if path is None:
        raise errors.SetupError(f"Program {name} of sandbox.programs not found. Install it, or give its path.")
    return path


def _resolve_read_path(folder: Path, name: str) -> str:
    path = (folder / Path(name).expanduser()).absolute()
    if not path.exists():
        raise errors.SetupError(f"{path} of sandbox.read_paths not found. Create it, or remove it from that setting.")
    return str(path)
