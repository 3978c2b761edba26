"""Exports of a run: rows for fine-tuning, CSV, recorded LLM responses, and an OpenEvolve checkpoint."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from atoll import errors, evaluation, llm, store
from atoll.evaluation import Cost
from atoll.llm import recording
from atoll.llm.base import split_stored_prompt
from atoll.runs import progress

type CallKey = tuple[int, int]  # iteration and call


class StepOutcome(NamedTuple):
    """Outcome of an iteration.

    Attributes:
        candidate: Best child; None if it has none.
        failure: Why it has no score.
        is_applied: Whether it is finished. A crashed run leaves iterations unfinished.
    """

    candidate: str | None = None
    score: float | None = None
    parent_score: float | None = None
    failure: str | None = None
    is_applied: bool = False

    @property
    def improved(self) -> bool | None:
        """Returns whether it was better than the best parent; None if unknown."""
        if not self.is_applied:
            return None
        if self.score is None:
            return False
        return None if self.parent_score is None else self.score > self.parent_score


@dataclass(slots=True)
class _StepData:
    parents: tuple[str, ...] = ()
    best: store.Row | None = None
    failure: str | None = None
    is_applied: bool = False


def iter_finetuning_rows(run_store: store.Store, run_id: str) -> Iterator[dict[str, Any]]:
    """Yields one row per LLM response to a proposer, by iteration and call; equal runs give equal rows.

    All responses of an iteration get the score of its best child. Calls of evaluators and gates are left out.
    """
    records = run_store.journal(run_id)
    last_index: dict[CallKey, int] = {}  # a call repeated after a crash counts once
    for index, record in enumerate(records.read_kinds("replied")):
        if (key := _parse_call_key(record.step, record.data)) is not None:
            last_index[key] = index
    if not last_index:
        return
    outcomes = _load_outcomes(run_store, run_id)
    pending_keys, ready_rows = iter(sorted(last_index)), dict[CallKey, dict[str, Any]]()
    next_key = next(pending_keys, None)
    for index, record in enumerate(records.read_kinds("replied")):
        key = _parse_call_key(record.step, record.data)
        if key is None or last_index.get(key) != index:
            continue
        ready_rows[key] = _make_row(record.step, record.data, outcomes.get(record.step, StepOutcome()))
        while next_key is not None and next_key in ready_rows:
            yield ready_rows.pop(next_key)
            next_key = next(pending_keys, None)


def _parse_call_key(step: int, data: Mapping[str, Any]) -> CallKey | None:
    call = str(data.get("call", ""))  # a number; for evaluators and gates a path
    return (step, int(call)) if call.isdecimal() and "prompt" in data and "text" in data else None


def _make_row(step: int, data: Mapping[str, Any], outcome: StepOutcome) -> dict[str, Any]:
    return {
        "prompt": data["prompt"],
        "reply": data["text"],
        "model": data.get("model"),
        "score": outcome.score,
        "improved": outcome.improved,
        "parent_score": outcome.parent_score,
        "candidate": outcome.candidate,
        "step": step,
        "failure": outcome.failure,
    }


def _load_outcomes(run_store: store.Store, run_id: str) -> Mapping[int, StepOutcome]:
    steps: dict[int, _StepData] = {}
    scores: dict[str, float | None] = {}
    for record in run_store.journal(run_id).read_kinds("begun", "applied"):
        step = steps.setdefault(record.step, _StepData())
        if record.kind == "begun":
            step.parents = tuple(record.data["parents"])
        else:
            step.is_applied, step.failure = True, record.data.get("failure")
    for row in run_store.candidates(run_id):
        scores[row.id] = row.score
        if row.version is not None:
            scores[row.version] = row.score
        if row.is_draft or not row.step:
            continue
        step = steps.setdefault(row.step, _StepData())
        if step.best is None or progress.get_sort_score(row) > progress.get_sort_score(step.best):
            step.best = row
    return {index: _make_outcome(step, scores) for index, step in steps.items()}


def _make_outcome(step: _StepData, scores: Mapping[str, float | None]) -> StepOutcome:
    row = step.best
    all_scores = [scores.get(id) for id in (row.parents if row else step.parents)]
    parent_score = max((score for score in all_scores if score is not None), default=None)
    if row is None:
        # Words of version 0.1: exported data sets keep their bytes.
        failure = step.failure or ("the step gave no child" if step.is_applied else "the step was not finished")
        return StepOutcome(None, None, parent_score, failure, step.is_applied)
    rejection = row.reason if row.score is None else None  # by a prefilter, before the evaluation
    return StepOutcome(row.id, row.score, parent_score, row.failure or rejection, step.is_applied)


CSV_COLUMNS = ("id", "parents", "island", "step", "is_draft", "score", "verdict", "reason", "by", "version", "failure")

_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(rows: store.Candidates) -> Iterator[str]:
    """Yields a heading and one row per candidate, with line ends. Each metric has its own column.

    Text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    metrics = sorted({name for row in rows for name in row.metrics})
    yield _format_row([*CSV_COLUMNS, *(_escape_formula(f"metric {name}") for name in metrics), "feedback", "content"])
    for row in rows:
        cells: list[str | float | None] = [row.id, " ".join(row.parents), row.island, row.step, int(row.is_draft)]
        cells += [row.score, row.verdict, row.reason, row.by, row.version, row.failure]
        cells += [*(row.metrics.get(name) for name in metrics), row.feedback, row.content]
        yield _format_row([_escape_formula(cell) if isinstance(cell, str) else cell for cell in cells])


def _escape_formula(text: str) -> str:
    encodable = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return f"'{encodable}" if encodable.startswith(_FORMULA_PREFIXES) else encodable


def _format_row(cells: list[str | float | None]) -> str:
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def iter_responses(run_store: store.Store, run_id: str) -> Iterator[str]:
    """Yields all LLM responses of a run as lines for `llm.RecordedLLM`, in the order of arrival."""
    for record in run_store.journal(run_id).read_kinds("replied"):
        data = record.data
        if "prompt" in data and "text" in data:
            response = llm.Response(data["text"], str(data.get("model") or "unknown"), Cost(*data["usage"]))
            yield recording.format_line((record.step, str(data["call"])), data["prompt"], response)


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
