"""The worldlines that a run left for review, and what becomes of them: approved, rejected, merged."""

import shlex
from pathlib import Path
from typing import Any, Literal, NamedTuple

from atoll import config, errors, store

WORKSPACE = "workspace"  # the kind of problem whose worldlines are commits


class ReviewTarget(NamedTuple):
    """Where the worldlines of a run lie.

    Attributes:
        system: Whose they are.
        folder: The repository.
        name: What the run is called there, which is not its id in the store.
    """

    system: str
    folder: Path
    name: str


def find_review_target(run_store: store.Store, run_id: str) -> ReviewTarget:
    """Finds the repository of a run.

    Raises:
        NotFound: There is no such run.
        SetupError: It has no workspaces: its worldlines are texts, or were made in a private copy.
    """
    stored_config = run_store.get_run(run_id).config
    system, task = stored_config.get("system", ""), stored_config.get("task", {})
    module = config.get_review_module(system)
    if module is None or task.get("problem") != WORKSPACE:
        raise errors.SetupError(
            f"Run {run_id} has no workspaces: its candidates are texts, and 'atoll best' prints them."
        )
    folder = module.find_source(Path(stored_config["folder"]), task["repository"])
    if not module.is_repository(folder):
        raise errors.SetupError(
            f"{folder} is a plain folder, of which run {run_id} mended a private copy: 'atoll best {run_id}' prints the "
            "edits; of a git repository there would be a branch to merge."
        )
    return ReviewTarget(system, folder, _find_run_name(run_store, run_id, module, stored_config))


def _find_run_name(run_store: store.Store, run_id: str, module: Any, stored_config: Any) -> str:
    """Returns what the run is called in the repository: as it said at its end, else as it was begun."""
    for record in run_store.journal(run_id).read_kinds("concluded"):
        if ref := record.data.get("result", {}).get("ref"):
            return str(ref).split("/")[-2]
    return str(
        module.make_run_name(
            Path(stored_config["folder"]), stored_config["task"]["repository"], stored_config["run"]["seed"]
        )
    )


def open_reviews(target: ReviewTarget) -> Any:
    """Returns what looks at the worldlines of a run and changes nothing."""
    return config.get_review_module(target.system).ReviewQueue(target.folder, target.name)


def decide(
    target: ReviewTarget,
    worldline_id: str,
    verdict: Literal["approve", "reject"],
    author: str,
    reason: str,
    commit: str | None,
) -> Any:
    """Records a decision about a worldline as it was looked at; `commit` None: as it is now.

    Raises:
        NotFound: There is none of that name.
        SetupError: It is refused: no reason, an author decides, another commit, or the run is still at work.
    """
    module, item = config.get_review_module(target.system), open_reviews(target).get(worldline_id)
    reviewed_commit = item.commit if commit is None else commit
    module.decide(target.folder, target.name, item.worldline_id, verdict, author, reason, reviewed_commit)
    return open_reviews(target).get(item.worldline_id)


def merge(target: ReviewTarget, worldline_id: str) -> str:
    """Merges a worldline that was approved, and only that; returns the merge commit.

    Raises:
        NotFound: There is none of that name.
        SetupError: It is refused; the message says why.
    """
    item = open_reviews(target).get(worldline_id)
    return str(config.get_review_module(target.system).merge(target.folder, target.name, item.worldline_id))


def to_json(target: ReviewTarget, item: Any) -> dict[str, Any]:
    """Returns a worldline for review as plain data."""
    return {
        "id": item.worldline_id,
        "commit": item.commit,
        "base": item.base,
        "state": item.state,
        "changes": [change._asdict() for change in item.changes],
        "decisions": [
            {"commit": decision.commit, "verdict": decision.verdict, "by": decision.by, "reason": decision.reason}
            for decision in item.decisions
        ],
        "look": f"git -C {shlex.quote(str(target.folder.resolve()))} diff {item.base[:12]} {item.commit[:12]}",
    }
