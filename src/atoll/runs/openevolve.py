"""A run as a checkpoint of OpenEvolve: for its viewer, and for whoever goes on there."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from atoll import errors, evaluation, store

ARCHIVE_SIZE = 100  # OpenEvolve's default
LANGUAGES = {".py": "python", ".rs": "rust", ".r": "r", ".txt": "text", ".md": "text"}


def export(kept: store.Store, run: str, folder: Path) -> Path:
    """Writes `checkpoint_N` into a folder, N being the last step, and returns its path.

    Every candidate with a score is in it, by our ids; what failed is not: OpenEvolve would take it for a score of 0.

    Raises:
        NotFound: There is no such run.
        SetupError: It has no candidates, or the folder cannot be written.
    """
    rows = [row for row in kept.candidates(run) if row.score is not None and not row.is_draft]
    if not rows:
        raise errors.SetupError(f"Run {run} has no candidate with a score yet: there is nothing to write.")
    config, last = kept.run(run).config, max(row.step for row in rows)
    suffix = PurePath(str(config.get("task", {}).get("program", "program.py"))).suffix or ".py"
    programs = list(_programs(kept, run, rows, suffix))
    best = max(programs, key=lambda each: float(each["metrics"]["combined_score"]))
    place = folder / f"checkpoint_{last}"
    try:
        (place / "programs").mkdir(parents=True, exist_ok=True)
        for program in programs:
            _write(place / "programs" / f"{program['id']}.json", program)
        _write(place / "metadata.json", _metadata(programs, best, last))
        (place / f"best_program{suffix}").write_text(best["code"], encoding="utf-8", errors="backslashreplace")
        _write(place / "best_program_info.json", _about(best, last))
    except OSError as error:
        raise errors.SetupError(f"{place} cannot be written: {error.strerror}.") from error
    return place


def export_all(kept: store.Store, run: str, folder: Path) -> Path:
    """Writes what `openevolve-run` leaves in its output folder: `checkpoints/checkpoint_N`, and `best` beside it.

    Raises:
        NotFound: There is no such run.
        SetupError: It has no candidates, or the folder cannot be written.
    """
    place = export(kept, run, folder / "checkpoints")
    try:
        (folder / "best").mkdir(exist_ok=True)
        for file in place.glob("best_program*"):
            (folder / "best" / file.name).write_bytes(file.read_bytes())
    except OSError as error:
        raise errors.SetupError(f"{folder} cannot be written: {error.strerror}.") from error
    return folder


def _write(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")


def _programs(kept: store.Store, run: str, rows: list[store.Row], suffix: str) -> Iterator[dict[str, Any]]:
    artifacts, prompts = _artifacts(kept, run), _prompts(kept, run)
    since = kept.run(run).created_at.timestamp()
    generations: dict[str, int] = {}
    scores = {row.id: {**row.metrics, "combined_score": row.score} for row in rows}
    for row in rows:
        parent = next((id for id in reversed(row.parents) if id in scores), None)
        generations[row.id] = generations.get(parent or "", -1) + 1
        yield {
            "id": row.id,
            "code": row.content,
            "changes_description": str(row.meta.get("edit", "")),
            "language": LANGUAGES.get(suffix, suffix.lstrip(".")),
            "parent_id": parent,
            "generation": generations[row.id],
            "timestamp": since,
            "iteration_found": row.step,
            "metrics": scores[row.id],
            "complexity": float(len(row.content)),
            "diversity": 0.0,
            "metadata": {
                "changes": str(row.meta.get("edit") or row.meta.get("engine", "")),
                "parent_metrics": scores.get(parent or "", {}),
                "island": row.island,
            },
            "prompts": prompts.get(row.step),
            "artifacts_json": json.dumps(artifacts[row.id]) if row.id in artifacts else None,
            "artifact_dir": None,
            "embedding": None,
        }


def _artifacts(kept: store.Store, run: str) -> Mapping[str, Mapping[str, str]]:
    """Returns the artifacts of the candidates as texts, by their ids."""
    bodies, found = kept.blobs(), dict[str, Mapping[str, str]]()
    for record in kept.journal(run).of_kind("founded", "judged"):
        judged = evaluation.from_data(record.data["evaluation"])
        named = record.data.get("candidate") or record.data
        if judged.artifacts and isinstance(named, Mapping):
            texts = {name: bodies.body(ref).decode("utf-8", "replace") for name, ref in judged.artifacts.items()}
            found[str(named["id"])] = texts
    return found


def _prompts(kept: store.Store, run: str) -> Mapping[int, Mapping[str, Any]]:
    """Returns what a model was asked and said in each step, under the name that OpenEvolve's viewer looks for."""
    found: dict[int, dict[str, Any]] = {}
    for record in kept.journal(run).of_kind("replied"):
        if {"prompt", "text"} <= record.data.keys():
            asked = found.setdefault(record.step, {"system": "", "user": record.data["prompt"], "responses": []})
            asked["responses"].append(record.data["text"])
    return {step: {"full_rewrite_user": asked} for step, asked in found.items()}


def _metadata(programs: list[dict[str, Any]], best: Mapping[str, Any], last: int) -> Mapping[str, Any]:
    num_islands = 1 + max(each["metadata"]["island"] for each in programs)
    islands: list[list[dict[str, Any]]] = [[] for _ in range(num_islands)]
    for each in programs:
        islands[each["metadata"]["island"]].append(each)
    ranked = sorted(programs, key=_score, reverse=True)
    return {
        "island_feature_maps": [{} for _ in islands],
        "islands": [[each["id"] for each in island] for island in islands],
        "archive": [each["id"] for each in ranked[:ARCHIVE_SIZE]],
        "best_program_id": best["id"],
        "island_best_programs": [max(island, key=_score)["id"] if island else None for island in islands],
        "last_iteration": last,
        "current_island": 0,
        "island_generations": [max((each["generation"] for each in island), default=0) for island in islands],
        "last_migration_generation": 0,
        "feature_stats": {},
    }


def _score(program: Mapping[str, Any]) -> float:
    return float(program["metrics"]["combined_score"])


def _about(best: Mapping[str, Any], last: int) -> Mapping[str, Any]:
    same = ("id", "generation", "timestamp", "parent_id", "metrics", "language")
    return {**{name: best[name] for name in same}, "iteration": best["iteration_found"], "current_iteration": last}
