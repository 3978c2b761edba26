"""Export of a run as an OpenEvolve checkpoint, for its viewer or to continue there."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from atoll import errors, evaluation, store
from atoll.llm.base import split_stored_prompt

ARCHIVE_SIZE = 100  # OpenEvolve's default
LANGUAGES = {".py": "python", ".rs": "rust", ".r": "r", ".txt": "text", ".md": "text"}


def export_checkpoint(run_store: store.Store, run_id: str, folder: Path) -> Path:
    """Writes `checkpoint_N` into a folder, where N is the last iteration, and returns its path.

    It has every candidate with a score, under the same id. Failed ones would have score 0 in OpenEvolve.

    Raises:
        NotFound: The run does not exist.
        SetupError: The run has no candidate with a score, or the folder cannot be written.
    """
    rows = [row for row in run_store.candidates(run_id) if row.score is not None and not row.is_draft]
    if not rows:
        raise errors.SetupError(f"Run {run_id} has no candidate with a score yet, so nothing was written.")
    config, last_step = run_store.get_run(run_id).config, max(row.step for row in rows)
    suffix = PurePath(str(config.get("task", {}).get("program", "program.py"))).suffix or ".py"
    programs = list(_iter_programs(run_store, run_id, rows, suffix))
    best = max(programs, key=lambda program: float(program["metrics"]["combined_score"]))
    checkpoint = folder / f"checkpoint_{last_step}"
    try:
        (checkpoint / "programs").mkdir(parents=True, exist_ok=True)
        for program in programs:
            _write_json(checkpoint / "programs" / f"{program['id']}.json", program)
        _write_json(checkpoint / "metadata.json", _make_metadata(programs, best, last_step))
        (checkpoint / f"best_program{suffix}").write_text(best["code"], encoding="utf-8", errors="backslashreplace")
        _write_json(checkpoint / "best_program_info.json", _make_best_info(best, last_step))
    except OSError as error:
        raise errors.SetupError(f"{checkpoint} cannot be written: {error.strerror}.") from error
    return checkpoint


def export_output_folder(run_store: store.Store, run_id: str, folder: Path) -> Path:
    """Writes an output folder like that of `openevolve-run`: `checkpoints/checkpoint_N` and `best`.

    Raises:
        NotFound: The run does not exist.
        SetupError: The run has no candidate with a score, or the folder cannot be written.
    """
    checkpoint = export_checkpoint(run_store, run_id, folder / "checkpoints")
    try:
        (folder / "best").mkdir(exist_ok=True)
        for file in checkpoint.glob("best_program*"):
            (folder / "best" / file.name).write_bytes(file.read_bytes())
    except OSError as error:
        raise errors.SetupError(f"{folder} cannot be written: {error.strerror}.") from error
    return folder


def _write_json(path: Path, data: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")


def _iter_programs(run_store: store.Store, run_id: str, rows: list[store.Row], suffix: str) -> Iterator[dict[str, Any]]:
    artifacts, prompts = _load_artifacts(run_store, run_id), _load_prompts(run_store, run_id)
    created_at = run_store.get_run(run_id).created_at.timestamp()
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
            "timestamp": created_at,
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


def _load_artifacts(run_store: store.Store, run_id: str) -> Mapping[str, Mapping[str, str]]:
    """Returns the artifacts of the candidates as texts, by candidate id."""
    blobs, artifacts = run_store.blobs(), dict[str, Mapping[str, str]]()
    for record in run_store.journal(run_id).read_kinds("founded", "judged"):
        result = evaluation.from_data(record.data["evaluation"])
        candidate_data = record.data.get("candidate") or record.data
        if result.artifacts and isinstance(candidate_data, Mapping):
            texts = {name: blobs.load_blob(ref).decode("utf-8", "replace") for name, ref in result.artifacts.items()}
            artifacts[str(candidate_data["id"])] = texts
    return artifacts


def _load_prompts(run_store: store.Store, run_id: str) -> Mapping[int, Mapping[str, Any]]:
    """Returns the prompt and the responses of each iteration, under the name that OpenEvolve's viewer expects."""
    prompts: dict[int, dict[str, Any]] = {}
    for record in run_store.journal(run_id).read_kinds("replied"):
        if {"prompt", "text"} <= record.data.keys():
            messages = dict(reversed(split_stored_prompt(record.data)))  # of each role the first
            first_prompt = {"system": messages.get("system", ""), "user": messages.get("user", ""), "responses": []}
            prompt = prompts.setdefault(record.step, first_prompt)
            prompt["responses"].append(record.data["text"])
    return {step: {"full_rewrite_user": prompt} for step, prompt in prompts.items()}


def _make_metadata(programs: list[dict[str, Any]], best: Mapping[str, Any], last_step: int) -> Mapping[str, Any]:
    num_islands = 1 + max(program["metadata"]["island"] for program in programs)
    islands: list[list[dict[str, Any]]] = [[] for _ in range(num_islands)]
    for program in programs:
        islands[program["metadata"]["island"]].append(program)
    ranked = sorted(programs, key=_get_score, reverse=True)
    return {
        "island_feature_maps": [{} for _ in islands],
        "islands": [[program["id"] for program in island] for island in islands],
        "archive": [program["id"] for program in ranked[:ARCHIVE_SIZE]],
        "best_program_id": best["id"],
        "island_best_programs": [max(island, key=_get_score)["id"] if island else None for island in islands],
        "last_iteration": last_step,
        "current_island": 0,
        "island_generations": [max((program["generation"] for program in island), default=0) for island in islands],
        "last_migration_generation": 0,
        "feature_stats": {},
    }


def _get_score(program: Mapping[str, Any]) -> float:
    return float(program["metrics"]["combined_score"])


def _make_best_info(best: Mapping[str, Any], last_step: int) -> Mapping[str, Any]:
    copied_keys = ("id", "generation", "timestamp", "parent_id", "metrics", "language")
    return {
        **{name: best[name] for name in copied_keys},
        "iteration": best["iteration_found"],
        "current_iteration": last_step,
    }
