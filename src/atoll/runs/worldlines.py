"""The worldlines that a run left for review, and what becomes of them: approved, rejected, merged."""

import shlex
from pathlib import Path
from typing import Any, Literal, NamedTuple

from atoll import config, errors, store

WORKSPACE = "workspace"  # the kind of problem whose worldlines are commits


class Desk(NamedTuple):
    """Where the worldlines of a run lie.

    Attributes:
        system: Whose they are.
        folder: The repository.
        name: What the run is called there, which is not its id in the store.
    """

    system: str
    folder: Path
    name: str


def desk(kept: store.Store, run: str) -> Desk:
    """Finds the repository of a run.

    Raises:
        NotFound: There is no such run.
        SetupError: It has no workspaces: its worldlines are texts, or were made in a private copy.
    """
    stored = kept.run(run).config
    system, task = stored.get("system", ""), stored.get("task", {})
    module = config.reviews(system)
    if module is None or task.get("problem") != WORKSPACE:
        raise errors.SetupError(f"Run {run} has no workspaces: its candidates are texts, and 'atoll best' prints them.")
    folder = module.source_of(Path(stored["folder"]), task["repository"])
    if not module.is_repository(folder):
        raise errors.SetupError(
            f"{folder} is a plain folder, of which run {run} mended a private copy: 'atoll best {run}' prints the "
            "edits; of a git repository there would be a branch to merge."
        )
    return Desk(system, folder, _name(kept, run, module, stored))


def _name(kept: store.Store, run: str, module: Any, stored: Any) -> str:
    """Returns what the run is called in the repository: as it said at its end, else as it was begun."""
    for record in kept.journal(run).of_kind("concluded"):
        if ref := record.data.get("result", {}).get("ref"):
            return str(ref).split("/")[-2]
    return str(module.place_of(Path(stored["folder"]), stored["task"]["repository"], stored["run"]["seed"]))


def opened(place: Desk) -> Any:
    """Returns what looks at the worldlines of a run and changes nothing."""
    return config.reviews(place.system).Reviews(place.folder, place.name)


def decide(
    place: Desk, worldline_id: str, verdict: Literal["approve", "reject"], by: str, reason: str, commit: str | None
) -> Any:
    """Records a decision about a worldline as it was looked at; `commit` None: as it is now.

    Raises:
        NotFound: There is none of that name.
        SetupError: It is refused: no reason, an author decides, another commit, or the run is still at work.
    """
    module, found = config.reviews(place.system), opened(place).get(worldline_id)
    at = found.commit if commit is None else commit
    module.decide(place.folder, place.name, found.worldline_id, verdict, by, reason, at)
    return opened(place).get(found.worldline_id)


def merge(place: Desk, worldline_id: str) -> str:
    """Merges a worldline that was approved, and only that; returns the merge commit.

    Raises:
        NotFound: There is none of that name.
        SetupError: It is refused; the message says why.
    """
    found = opened(place).get(worldline_id)
    return str(config.reviews(place.system).merge(place.folder, place.name, found.worldline_id))


def told(place: Desk, found: Any) -> dict[str, Any]:
    """Returns a worldline for review as plain data."""
    return {
        "id": found.worldline_id,
        "commit": found.commit,
        "base": found.base,
        "state": found.state,
        "changes": [each._asdict() for each in found.changes],
        "decisions": [
            {"commit": each.commit, "verdict": each.verdict, "by": each.by, "reason": each.reason}
            for each in found.decisions
        ],
        "look": f"git -C {shlex.quote(str(place.folder.resolve()))} diff {found.base[:12]} {found.commit[:12]}",
    }
