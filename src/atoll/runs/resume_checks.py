"""What a run may use, and what of it may change once it began."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from atoll import config, control, errors
from atoll.runs.summary import Totals

FIXED_KEYS = {"seed", "window", "deterministic", "method"}  # keys of [run] on which everything depends
LIMIT_KEYS = {"iterations", "budget", "target", "patience"}


def check_changes(changes: Sequence[config.Sections]) -> None:
    """Refuses what a run that began cannot change.

    Raises:
        SetupError: One of the changes is such.
    """
    for section, keys in ((section, keys) for layer in changes for section, keys in layer.items()):
        fixed = list(keys) if section not in config.COMMON_SECTIONS else [key for key in keys if key in FIXED_KEYS]
        if fixed and section in (*config.list_systems(), "task", *config.COMMON_SECTIONS, config.NO_SECTION):
            key = fixed[0]
            raise errors.SetupError(
                f"{f'{section}.{key}'.lstrip('.')} is what this run began with and stays: start a new run for another."
            )


def check_budget(budget: control.Budget, *, has_llm: bool) -> None:
    """Refuses a budget that would never end a run.

    Raises:
        SetupError: It counts what only a model uses, and there is none.
    """
    if not has_llm and all(getattr(budget, name) is None for name in ("iterations", "evaluations", "seconds")):
        llm_limits = [name for name in ("calls", "tokens", "usd") if getattr(budget, name) is not None]
        if llm_limits:
            raise errors.SetupError(
                f"A budget of {llm_limits[0]} never ends without a model: give --llm, or e.g. 60s or 500evals."
            )


def extend_budget(budget: control.Budget, usage: Totals) -> control.Budget:
    """Returns a budget that counts from what was used; seconds always count from the start of a session."""
    cost = usage.cost
    used_amounts: dict[str, float] = {"iterations": usage.steps, "evaluations": usage.evaluations, "calls": cost.calls}
    used_amounts |= {"tokens": cost.tokens_in + cost.tokens_out, "usd": cost.usd}
    limits: dict[str, Any] = {field.name: getattr(budget, field.name) for field in fields(budget)}
    return control.Budget(
        **{name: limit if limit is None else limit + used_amounts.get(name, 0) for name, limit in limits.items()}
    )


def hash_files(files: Sequence[Path]) -> Mapping[str, str]:
    """Returns the hashes of files by their paths below what they share, so that a resume notices a change.

    Raises:
        SetupError: One is gone.
    """
    try:
        hashes = [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in files]
    except OSError as error:
        raise errors.SetupError(f"{error.filename} cannot be read: {error.strerror}.") from error
    common_folder = os.path.commonpath([path.absolute().parent for path in files]) if files else ""
    return {
        os.path.relpath(path.absolute(), common_folder): file_hash
        for path, file_hash in zip(files, hashes, strict=True)
    }
