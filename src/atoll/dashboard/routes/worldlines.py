"""Worldlines of mind runs: graph, conversations, and review of git branches."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from atoll import errors, store
from atoll.dashboard import text_limits
from atoll.dashboard.dependencies import RunId, StoreDep
from atoll.runs import worldline_review

router = APIRouter(prefix="/api/runs/{run}/worldlines", tags=["worldlines"])

MAX_ROWS = 4000  # maximum number of candidates in a graph
MAX_PATCH = 400_000
MAX_TURN = 40_000  # characters per plan, critique or feedback
# The five terms of the fitness, in the order of their weights.
FITNESS_TERMS = ("temporal_consistency", "divergence", "task_progress", "review_feedback", "resource_cost")


class WorldlineDecision(text_limits.AuthorAndReason):
    """A decision on a worldline at the reviewed commit."""

    verdict: Literal["approve", "reject"]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]


@router.get("")
def show_graph(
    run_store: StoreDep, run: RunId, island: Annotated[int, Query(ge=0, le=1_000_000)] = 0
) -> dict[str, Any]:
    """Returns the worldlines of an island by generation with their parents and the fitness weights."""
    rows = list(islice(_iter_children(run_store, run, island), MAX_ROWS + 1))
    config = run_store.get_run(run).config
    return {
        "run": run,
        "island": island,
        "islands": run_store.candidates(run).list_islands(),
        "kind": config.get("task", {}).get("problem", "text"),
        "weights": dict(zip(FITNESS_TERMS, config.get("mind", {}).get("weights", ()), strict=False)),
        "strategy": _get_strategy(config, island),
        "generations": _group_generations(rows[:MAX_ROWS]),
        "is_cut": len(rows) > MAX_ROWS,
    }


def _iter_children(run_store: store.Store, run: str, island: int) -> Iterable[store.Row]:
    return (row for row in run_store.candidates(run).iter_island(island) if row.step and not row.is_draft)


def _get_strategy(config: Mapping[str, Any], island: int) -> str:
    """Returns the name of an island's weighting strategy."""
    mind_config = config.get("mind", {})
    names, num_islands = mind_config.get("strategies") or (), mind_config.get("num_islands") or 1
    return str(names[island % num_islands % len(names)]) if names and num_islands > 1 else "common weights"


def _group_generations(rows: Sequence[store.Row]) -> list[dict[str, Any]]:
    """Groups turns into worldlines, and worldlines into generations. One iteration is one worldline."""
    steps: dict[int, dict[int, list[store.Row]]] = {}
    for row in rows:
        steps.setdefault(_get_generation(row), {}).setdefault(row.step, []).append(row)
    generations = []
    for index, worldline_rows in sorted(steps.items()):
        members = [_worldline_to_json(step, turn_rows) for step, turn_rows in sorted(worldline_rows.items())]
        scores = [member["best"] for member in members if member["best"] is not None]
        stats = {"best": max(scores, default=None), "mean": _mean(scores)}
        generations.append({"generation": index + 1, **stats, "worldlines": members})
    return generations


def _mean(scores: Sequence[float]) -> float | None:
    try:
        return fmean(scores) if scores else None
    except OverflowError:  # very large scores
        return None


def _get_generation(row: store.Row) -> int:
    generation = row.meta.get("generation", 0)
    return generation if isinstance(generation, int) else 0


def _worldline_to_json(step: int, rows: Sequence[store.Row]) -> dict[str, Any]:
    scored = [row for row in rows if row.score is not None]
    best = max(scored, key=lambda row: row.score or 0.0, default=None)
    last = rows[-1]
    return {
        "step": step,
        "parents": list(rows[0].parents),
        "turns": len(rows),
        "best": None if best is None else best.score,
        "best_id": None if best is None else best.id,
        "is_solved": any(row.metrics.get("solved", 0.0) > 0 for row in rows),
        "summary": text_limits.limit_text((last.failure or last.feedback).strip().partition("\n")[0], 200),
        "chosen": text_limits.to_json_data(rows[0].meta.get("chosen", [])),
    }


@router.get("/turns/{step}")
def list_turns(run_store: StoreDep, run: RunId, step: Annotated[int, Field(ge=1, le=2**53)]) -> dict[str, Any]:
    """Returns the turns of a worldline: critique, plan, feedback of the evaluator, fitness."""
    rows, turn_rows = run_store.candidates(run), list[store.Row]()
    while len(turn_rows) < 200 and (row := rows.find(f"{step}.{len(turn_rows)}")) is not None:
        turn_rows.append(row)
    if not turn_rows:
        raise errors.NotFound(f"Worldline {step} not found in run {run}.")
    return {"run": run, "step": step, "island": turn_rows[0].island, "turns": [_turn_to_json(row) for row in turn_rows]}


def _turn_to_json(row: store.Row) -> dict[str, Any]:
    problem, _, plan = row.content.partition("\n")
    fields = {
        "id": row.id,
        "parents": list(row.parents),
        "problem": problem,
        "plan": plan,
        "critic": str(row.meta.get("critic", "")),
        "judge": row.failure or row.feedback,
        "has_failed": row.failure is not None,
        "score": row.score,
        "verdict": row.verdict,
        "terms": {name: row.metrics.get(name) for name in FITNESS_TERMS},
        "task_score": row.metrics.get("task_score"),
        "fork": str(row.meta.get("fork", "")),
        "memory": row.meta.get("memory", []),
        "tools": row.meta.get("tools", []),
        "usage": row.meta.get("usage", {}),
    }
    turn: dict[str, Any] = text_limits.to_json_data(fields, MAX_TURN)
    return turn


@router.get("/reviews")
def list_reviews(run_store: StoreDep, run: RunId) -> dict[str, Any]:
    """Lists the worldlines of a run in a git repository with their decisions.

    Runs with text worldlines have none; `why` explains it.
    """
    try:
        target = worldline_review.find_review_target(run_store, run)
        results = worldline_review.find_results(run_store, run)
        queue = worldline_review.open_reviews(target)
        review_rows = [worldline_review.to_json(target, review, results) for review in queue.list_items()]
    except errors.SetupError as error:
        return {"run": run, "reviews": [], "why": str(error)}
    return {
        "run": run,
        "reviews": text_limits.to_json_data(review_rows, 2000),
        "why": None if review_rows else "Nothing to review yet.",
    }


@router.get("/reviews/{worldline}/diff")
def show_diff(run_store: StoreDep, run: RunId, worldline: Annotated[str, Field(max_length=80)]) -> dict[str, Any]:
    """Returns the diff of a worldline to its base commit."""
    queue = worldline_review.open_reviews(worldline_review.find_review_target(run_store, run))
    review = queue.get(worldline)
    patch = queue.repository.diff(review.base, review.commit)
    return {"id": review.worldline_id, "commit": review.commit, "patch": text_limits.limit_text(patch, MAX_PATCH)}


@router.post("/reviews/{worldline}/decision")
def decide(
    run_store: StoreDep, run: RunId, worldline: Annotated[str, Field(max_length=80)], body: WorldlineDecision
) -> dict[str, Any]:
    """Approves or rejects a worldline at the reviewed commit.

    The request fails without a reason, for the author, for an old commit, or while the run is active.
    """
    target = worldline_review.find_review_target(run_store, run)
    review = worldline_review.decide(target, worldline, body.verdict, body.by, body.reason, body.commit)
    response: dict[str, Any] = text_limits.to_json_data(worldline_review.to_json(target, review), 2000)
    return response


@router.post("/reviews/{worldline}/merge")
def merge(run_store: StoreDep, run: RunId, worldline: Annotated[str, Field(max_length=80)]) -> dict[str, Any]:
    """Merges an approved worldline into the current branch of the repository."""
    target = worldline_review.find_review_target(run_store, run)
    merge_result = worldline_review.merge(target, worldline)
    return {
        "id": worldline,
        "merged": merge_result,
        **text_limits.to_json_data(
            worldline_review.to_json(target, worldline_review.open_reviews(target).get(worldline))
        ),
    }
