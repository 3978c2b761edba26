"""Worldlines: the graph of a run of minds, the conversations that made it, and the review of what it wrote in git."""

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

MAX_ROWS = 4000  # candidates of an island that one graph is made of
MAX_PATCH = 400_000
MAX_TURN = 40_000  # characters of a plan, of what a critic or a judge said
# The five terms of the fitness, in the order of their weights, each with how it enters the sum.
FITNESS_TERMS = ("temporal_consistency", "divergence", "task_progress", "review_feedback", "resource_cost")


class WorldlineDecision(text_limits.AuthorAndReason):
    """A decision about a worldline at the commit that was looked at."""

    verdict: Literal["approve", "reject"]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]


@router.get("")
def show_graph(
    run_store: StoreDep, run: RunId, island: Annotated[int, Query(ge=0, le=1_000_000)] = 0
) -> dict[str, Any]:
    """Shows the worldlines of an island by generation, with their parents, and how their fitness is weighed."""
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
    """Returns the name of the strategy by which an island weighs fitness."""
    mind_config = config.get("mind", {})
    names, num_islands = mind_config.get("strategies") or (), mind_config.get("num_islands") or 1
    return str(names[island % num_islands % len(names)]) if names and num_islands > 1 else "common weights"


def _group_generations(rows: Sequence[store.Row]) -> list[dict[str, Any]]:
    """Groups turns into worldlines and those into generations; a step is one worldline."""
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
    except OverflowError:  # scores near the greatest number
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
    """Shows the conversation of a worldline, turn by turn: what the critic said, the plan, the judge, the fitness."""
    rows, turn_rows = run_store.candidates(run), list[store.Row]()
    while len(turn_rows) < 200 and (row := rows.find(f"{step}.{len(turn_rows)}")) is not None:
        turn_rows.append(row)
    if not turn_rows:
        raise errors.NotFound(f"Run {run} has no worldline {step}.")
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
    }
    turn: dict[str, Any] = text_limits.to_json_data(fields, MAX_TURN)
    return turn


@router.get("/reviews")
def list_reviews(run_store: StoreDep, run: RunId) -> dict[str, Any]:
    """Lists the worldlines that a run left in a repository, with what was decided about each.

    A run whose worldlines are texts has none; `why` says so.
    """
    try:
        target = worldline_review.find_review_target(run_store, run)
        review_rows = [
            worldline_review.to_json(target, review) for review in worldline_review.open_reviews(target).list_items()
        ]
    except errors.SetupError as error:
        return {"run": run, "reviews": [], "why": str(error)}
    return {
        "run": run,
        "reviews": text_limits.to_json_data(review_rows, 2000),
        "why": None if review_rows else "There is nothing to review yet.",
    }


@router.get("/reviews/{worldline}/diff")
def show_diff(run_store: StoreDep, run: RunId, worldline: Annotated[str, Field(max_length=80)]) -> dict[str, Any]:
    """Shows how a worldline differs from what it was forked from, as a patch."""
    queue = worldline_review.open_reviews(worldline_review.find_review_target(run_store, run))
    review = queue.get(worldline)
    patch = queue.repository.diff(review.base, review.commit)
    return {"id": review.worldline_id, "commit": review.commit, "patch": text_limits.limit_text(patch, MAX_PATCH)}


@router.post("/reviews/{worldline}/decision")
def decide(
    run_store: StoreDep, run: RunId, worldline: Annotated[str, Field(max_length=80)], body: WorldlineDecision
) -> dict[str, Any]:
    """Approves or rejects a worldline at the commit that was looked at.

    Refused: no reason, who wrote it, a commit that is not the newest, a run that is still at work.
    """
    target = worldline_review.find_review_target(run_store, run)
    review = worldline_review.decide(target, worldline, body.verdict, body.by, body.reason, body.commit)
    response: dict[str, Any] = text_limits.to_json_data(worldline_review.to_json(target, review), 2000)
    return response


@router.post("/reviews/{worldline}/merge")
def merge(run_store: StoreDep, run: RunId, worldline: Annotated[str, Field(max_length=80)]) -> dict[str, Any]:
    """Merges a worldline whose approval stands, and no other, into the branch of the repository's worktree."""
    target = worldline_review.find_review_target(run_store, run)
    merge_result = worldline_review.merge(target, worldline)
    return {
        "id": worldline,
        "merged": merge_result,
        **text_limits.to_json_data(
            worldline_review.to_json(target, worldline_review.open_reviews(target).get(worldline))
        ),
    }
