"""Where a plan's candidates are judged: its settings, and what this start of the run allows."""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from atoll import config, errors, executor, sandbox

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE", re.IGNORECASE)


class Allowed(NamedTuple):
    """What whoever starts a run takes upon themselves; it holds for this start alone and is never stored.

    Attributes:
        unsafe: Candidates of a model may run with no jail.
        env: Variables that hold secrets, and that candidates may see all the same.
    """

    unsafe: bool = False
    env: Sequence[str] = ()


NOTHING = Allowed()


def place_of(plan: config.Plan, allowed: Allowed, *, has_model: bool) -> executor.Place:
    """Returns where candidates are judged.

    Raises:
        SetupError: Something that the settings name is not there, or is not allowed.
    """
    wanted = plan.sandbox
    profile = sandbox.Profile(
        programs=tuple(_program(name) for name in wanted.programs),
        network=wanted.network,
        env=_environment(wanted.env, allowed.env),
        reads=tuple(_readable(plan.folder, name) for name in wanted.reads),
    )
    cluster = plan.executor.cluster()
    usual = min(plan.run.workers, executor.cores()) if cluster is None else plan.run.workers
    return executor.Place(
        wanted.limits(),
        wanted.slots or usual,
        wanted.require,
        allowed.unsafe or not has_model,
        wanted.trusted,
        profile,
        cluster,
    )


def _environment(names: Sequence[str], allowed: Sequence[str]) -> Mapping[str, str]:
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


def _program(name: str) -> str:
    found = name if name == "." else shutil.which(name)
    if found is None:
        raise errors.SetupError(
            f"There is no program {name}, which sandbox.programs names: install it, or give its path."
        )
    return found


def _readable(folder: Path, name: str) -> str:
    path = (folder / Path(name).expanduser()).absolute()
    if not path.exists():
        raise errors.SetupError(f"There is no {path}, which sandbox.reads names.")
    return str(path)
