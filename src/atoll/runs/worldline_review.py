"""Review of the worldlines of a run: list, approve, reject, merge."""

import dataclasses
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from atoll import config, errors, store
from atoll.candidate import EMPTY

_TEST_METRICS = ("passed", "tests", "open_checks", "broken_tests", "changed_lines")
WORKSPACE = "workspace"  # problem whose worldlines are commits


class ReviewTarget(NamedTuple):
    """Location of the worldlines of a run.

    Attributes:
        folder: The repository.
        name: Name of the run in the repository, which is not its id in the store.
    """

    system: str
    folder: Path
    name: str


def find_review_target(run_store: store.Store, run_id: str) -> ReviewTarget:
    """Finds the repository of a run.

    Raises:
        NotFound: The run does not exist.
        SetupError: The run has no workspaces: its worldlines are texts, or were made in a private copy.
    """
    stored_config = run_store.get_run(run_id).config
    system, task = stored_config.get("system", ""), stored_config.get("task", {})
    module = config.get_review_module(system)
    if module is None or task.get("problem") != WORKSPACE:
        raise errors.SetupError(
            f"Run {run_id} has no workspaces, since its candidates are texts. Print them with 'atoll best {run_id}'."
        )
    folder = module.find_source(Path(stored_config["folder"]), task["repository"])
    if not module.is_repository(folder):
        raise errors.SetupError(
            f"{folder} is not a git repository, so run {run_id} changed a private copy. "
            f"Print the edits with 'atoll best {run_id}'."
        )
    return ReviewTarget(system, folder, _find_run_name(run_store, run_id, module, stored_config))


def _find_run_name(run_store: store.Store, run_id: str, module: Any, stored_config: Any) -> str:
    """Returns the name of the run in the repository: from its result, or from its configuration."""
    for record in run_store.journal(run_id).read_kinds("concluded"):
        if ref := record.data.get("result", {}).get("ref"):
            return str(ref).split("/")[-2]
    repository, seed = stored_config["task"]["repository"], stored_config["run"]["seed"]
    return str(module.make_run_name(Path(stored_config["folder"]), repository, seed))


def open_reviews(target: ReviewTarget) -> Any:
    """Returns a read-only view of the worldlines of a run."""
    return config.get_review_module(target.system).ReviewQueue(target.folder, target.name)


def find_results(run_store: store.Store, run_id: str) -> dict[str, dict[str, Any]]:
    """Returns the test results and LLM costs of a run's worldlines, by id."""
    results = dict[str, dict[str, Any]]()
    for worldline_id, row in _find_rows(run_store, run_id).items():
        usage: Any = row.meta.get("usage") or {}
        numbers = {name: int(row.metrics[name]) for name in _TEST_METRICS if name in row.metrics}
        costs = {name: usage.get(name, 0) for name in ("calls", "tokens", "usd")}
        if numbers or usage:  # candidates of version 0.1 have neither
            results[worldline_id] = {"candidate": row.id, **numbers, **costs}
    return results


def _find_rows(run_store: store.Store, run_id: str) -> dict[str, store.Row]:
    """Returns the first evaluated candidate of each worldline, by the id of the worldline."""
    module = config.get_review_module(run_store.get_run(run_id).config.get("system", ""))
    rows = dict[str, store.Row]()
    for row in run_store.candidates(run_id):
        if row.step and not row.is_draft and row.failure is None:
            rows.setdefault(module.make_worldline_id(row.content.partition("\n")[2]), row)
    return rows


def learn_weights(
    run_store: store.Store, parameters: Any, run_id: str, author: str, reason: str, rate: float
) -> dict[str, Any]:
    """Changes the fitness weights by the decisions about a run. Without rejections, all others count as rejected.

    Raises:
        SetupError: The run has no approved worldline, or no other one.
    """
    target = find_review_target(run_store, run_id)
    module, rows = config.get_review_module(target.system), _find_rows(run_store, run_id)
    states = {item.worldline_id: item.state for item in open_reviews(target).list_items()}
    approved = [row.metrics for name, row in rows.items() if states.get(name) in ("approved", "merged")]
    rejected = [row.metrics for name, row in rows.items() if states.get(name) == "rejected"]
    others = [row.metrics for name, row in rows.items() if states.get(name) not in ("approved", "merged")]
    learned = module.learn_weights(parameters, approved, rejected or others, reason, author, rate)
    return {
        "key": module.WEIGHTS_KEY,
        "old": dataclasses.asdict(learned.old),
        "new": dataclasses.asdict(learned.new),
        "old_version": learned.old_version,
        "version": learned.new_version,
    }


def decide(
    target: ReviewTarget,
    worldline_id: str,
    verdict: Literal["approve", "reject"],
    author: str,
    reason: str,
    commit: str | None,
) -> Any:
    """Records a decision about a worldline.

    Args:
        commit: The commit that was reviewed; None for the current one.

    Raises:
        NotFound: The worldline does not exist.
        SetupError: The reason is missing, the author decides, the commit differs, or the run is still running.
    """
    module, item = config.get_review_module(target.system), open_reviews(target).get(worldline_id)
    reviewed_commit = item.commit if commit is None else commit
    module.decide(target.folder, target.name, item.worldline_id, verdict, author, reason, reviewed_commit)
    return open_reviews(target).get(item.worldline_id)


def merge(target: ReviewTarget, worldline_id: str) -> str:
    """Merges an approved worldline and returns the merge commit.

    Raises:
        NotFound: The worldline does not exist.
        SetupError: It cannot be merged; the message says why.
    """
    item = open_reviews(target).get(worldline_id)
    return str(config.get_review_module(target.system).merge(target.folder, target.name, item.worldline_id))


def to_json(target: ReviewTarget, item: Any, results: Mapping[str, dict[str, Any]] = EMPTY) -> dict[str, Any]:
    """Returns plain data of a worldline, with its test results and costs if given."""
    command = f"git -C {shlex.quote(str(target.folder.resolve()))} diff {item.base[:12]} {item.commit[:12]}"
    data = {"id": item.worldline_id, "commit": item.commit, "base": item.base, "state": item.state}
    decision_keys = ("commit", "verdict", "by", "reason")
    decisions = [{key: getattr(decision, key) for key in decision_keys} for decision in item.decisions]
    changes = [change._asdict() for change in item.changes]
    result = {"result": results[item.worldline_id]} if item.worldline_id in results else {}
    return {**data, "changes": changes, "decisions": decisions, "look": command, **result}
