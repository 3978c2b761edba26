"""Limits of a run: budgets, stop rules, and which settings and files a resumed run may change."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from atoll import config, control, errors, journal, store
from atoll.runs.summary import Totals

FIXED_KEYS = {"seed", "window", "deterministic", "method"}  # keys of [run] that determine the whole search
LIMIT_KEYS = {"iterations", "budget", "target", "patience"}
# Keys of a stored run that are not part of its configuration.
NON_SECTION_KEYS = ("is_ordered", "window", "files", "baseline_of", "baseline", "shared")

# Settings that version 0.1 did not have, with the values that keep its behavior. Only a resume uses them. Values for
# all readers of a stored configuration are in `Settings.OLD_DEFAULTS`.
_FIRST_SETTINGS = {
    ("programs", "policy"): "openevolve",
    ("llmsr", "law_search"): "products",
    ("mind", "fitness_terms"): "simple",
}


def check_changes(changes: Sequence[config.Sections]) -> None:
    """Checks that a resumed run may change these settings.

    Raises:
        SetupError: One of them is fixed.
    """
    # All keys of [task] and of the system are fixed. `config` reports unknown sections later.
    for section, keys in ((section, keys) for layer in changes for section, keys in layer.items()):
        fixed = list(keys) if section not in config.COMMON_SECTIONS else [key for key in keys if key in FIXED_KEYS]
        if fixed and section in (*config.list_systems(), "task", *config.COMMON_SECTIONS, config.NO_SECTION):
            setting = f"{section}.{fixed[0]}".lstrip(".")
            raise errors.SetupError(f"{setting} cannot change in a run that has begun. Start a new run to change it.")


def check_budget(budget: control.Budget, *, has_llm: bool) -> None:
    """Checks that a budget can end the run.

    Raises:
        SetupError: It limits only LLM usage, and the run has no LLM.
    """
    if not has_llm and all(getattr(budget, name) is None for name in ("iterations", "evaluations", "seconds")):
        llm_limits = [name for name in ("calls", "tokens", "usd") if getattr(budget, name) is not None]
        if llm_limits:
            raise errors.SetupError(
                f"A budget of {llm_limits[0]} never ends a run without an LLM. Pass --llm, or a budget such as 60s "
                "or 500evals."
            )


def get_limits(budget: control.Budget) -> dict[str, Any]:
    """Returns the limits of a budget by name, with None for those that are not set."""
    return {field.name: getattr(budget, field.name) for field in fields(budget)}


def get_first_budget(run_config: config.RunConfig, stored_config: Mapping[str, Any] | None) -> control.Budget | None:
    """Returns the budget with which a stored run started first; None for a new run."""
    if not stored_config or "run" not in stored_config:
        return None
    first_limits = {name: stored_config["run"].get(name) for name in LIMIT_KEYS}
    return replace(run_config, run=run_config.run.model_copy(update=first_limits)).get_budget()


def extend_budget(budget: control.Budget, usage: Totals) -> control.Budget:
    """Adds the earlier usage of a run to a budget. Seconds are not added: they count from each start of the run."""
    cost = usage.cost
    used_amounts: dict[str, float] = {"iterations": usage.steps, "evaluations": usage.evaluations, "calls": cost.calls}
    used_amounts |= {"tokens": cost.tokens_in + cost.tokens_out, "usd": cost.usd}
    return control.Budget(
        **{
            name: None if limit is None else limit + used_amounts.get(name, 0)
            for name, limit in get_limits(budget).items()
        }
    )


def hash_files(files: Sequence[Path]) -> Mapping[str, str]:
    """Returns hashes of files by their paths below the common folder; a resume compares them.

    Raises:
        SetupError: A file cannot be read.
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


class PlateauRule:
    """Stops after `patience` iterations in which the best score did not gain at least `min_gain`.

    Small gains add up: together they count once they reach `min_gain`. Called under the lock, in the order of the
    iterations.

    Args:
        min_gain: The gain that counts; 0 for any gain.
        history: Iterations and scores of a resumed run, ordered by iteration.
    """

    def __init__(self, patience: int, min_gain: float, history: Sequence[tuple[int, float]] = ()) -> None:
        self._patience, self._min_gain = patience, min_gain
        self._best: float | None = None
        self._best_iteration = 0
        for iteration, score in history:
            self._update(iteration, score)

    def __call__(self, progress: control.RunProgress) -> str | None:
        if progress.best_score is not None:
            self._update(progress.applied_count, progress.best_score)
        if progress.applied_count - self._best_iteration < self._patience:
            return None
        gain = f" of at least {self._min_gain:g}" if self._min_gain else ""
        return f"no gain{gain} in {self._patience} iterations"

    def _update(self, iteration: int, score: float) -> None:
        if self._best is None or (score > self._best and score - self._best >= self._min_gain):
            self._best, self._best_iteration = score, iteration


def make_stop_rules(settings: config.RunSettings, run_store: store.Store, run_id: str) -> Sequence[control.StopRule]:
    """Returns the stop rules for the target and the patience of a run."""
    rules: list[control.StopRule] = []
    if settings.target is not None:
        rules.append(control.make_target_rule(settings.target))
    if settings.patience is not None:
        rows = ((row.step, row.score) for row in run_store.candidates(run_id) if row.score is not None and row.verdict)
        rules.append(PlateauRule(settings.patience, settings.min_gain, sorted(rows)))
    return rules


def load_last_sections(run_store: store.Store, run_id: str) -> tuple[dict[str, Any], control.Budget | None]:
    """Returns the stored sections of a run with the changes of earlier resumes, and the budget of its last start."""
    sections = {name: value for name, value in run_store.get_run(run_id).config.items() if name not in NON_SECTION_KEYS}
    for (section, key), value in _FIRST_SETTINGS.items():
        if section in sections:
            sections[section] = {key: value, **sections[section]}
    budget = None
    carried_keys = ("llm", "workers", *LIMIT_KEYS)
    for record in run_store.journal(run_id).read_kinds(journal.STARTED):
        last_config = record.data["plan"]
        sections |= {name: last_config[name] for name in ("llm", "sandbox", "executor") if name in last_config}
        last_settings = {key: last_config["run"][key] for key in carried_keys if key in last_config["run"]}
        sections["run"] = {**sections["run"], **last_settings}
        stored_budget = record.data.get("budget")
        budget = None if stored_budget is None else control.Budget(**stored_budget)
    return sections, budget
