"""Worldlines: the graph of a run of minds, the conversations that made it, and the review of what it wrote in git."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from statistics import fmean
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from atoll import errors, store
from atoll.dashboard import plain
from atoll.dashboard.given import Kept, RunId
from atoll.runs import worldlines

router = APIRouter(prefix="/api/runs/{run}/worldlines", tags=["worldlines"])

MAX_ROWS = 4000  # candidates of an island that one graph is made of
MAX_PATCH = 400_000
MAX_TURN = 40_000  # characters of a plan, of what a critic or a judge said
# The five terms of the fitness, in the order of their weights, each with how it enters the sum.
TERMS = ("temporal_consistency", "divergence", "task_progress", "review_feedback", "resource_cost")


class Verdict(plain.Said):
    """A decision about a worldline at the commit that was looked at."""

    verdict: Literal["approve", "reject"]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]


@router.get("")
def graph(kept: Kept, run: RunId, island: Annotated[int, Query(ge=0, le=1_000_000)] = 0) -> dict[str, Any]:
    """Shows the worldlines of an island by generation, with their parents, and how their fitness is weighed."""
    rows = list(islice(_children(kept, run, island), MAX_ROWS + 1))
    config = kept.run(run).config
    return {
        "run": run,
        "island": island,
        "islands": kept.candidates(run).islands(),
        "kind": config.get("task", {}).get("problem", "text"),
        "weights": dict(zip(TERMS, config.get("mind", {}).get("weights", ()), strict=False)),
        "strategy": _strategy(config, island),
        "generations": _generations(rows[:MAX_ROWS]),
        "is_cut": len(rows) > MAX_ROWS,
    }


def _children(kept: store.Store, run: str, island: int) -> Iterable[store.Row]:
    return (row for row in kept.candidates(run).of_island(island) if row.step and not row.is_draft)


def _strategy(config: Mapping[str, Any], island: int) -> str:
    """Returns the name of the strategy by which an island weighs fitness."""
    own = config.get("mind", {})
    names, number = own.get("strategies") or (), own.get("num_islands") or 1
    return str(names[island % number % len(names)]) if names and number > 1 else "common weights"


def _generations(rows: Sequence[store.Row]) -> list[dict[str, Any]]:
    """Groups turns into worldlines and those into generations; a step is one worldline."""
    steps: dict[int, dict[int, list[store.Row]]] = {}
    for row in rows:
        steps.setdefault(_generation(row), {}).setdefault(row.step, []).append(row)
    found = []
    for number, lines in sorted(steps.items()):
        made = [_worldline(step, each) for step, each in sorted(lines.items())]
        scores = [each["best"] for each in made if each["best"] is not None]
        told = {"best": max(scores, default=None), "mean": _mean(scores)}
        found.append({"generation": number + 1, **told, "worldlines": made})
    return found


def _mean(scores: Sequence[float]) -> float | None:
    try:
        return fmean(scores) if scores else None
    except OverflowError:  # scores near the greatest number
        return None


def _generation(row: store.Row) -> int:
    number = row.meta.get("generation", 0)
    return number if isinstance(number, int) else 0


def _worldline(step: int, rows: Sequence[store.Row]) -> dict[str, Any]:
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
        "summary": plain.text((last.failure or last.feedback).strip().partition("\n")[0], 200),
        "chosen": plain.data(rows[0].meta.get("chosen", [])),
    }


@router.get("/turns/{step}")
def turns(kept: Kept, run: RunId, step: Annotated[int, Field(ge=1, le=2**53)]) -> dict[str, Any]:
    """Shows the conversation of a worldline, turn by turn: what the critic said, the plan, the judge, the fitness."""
    rows, found = kept.candidates(run), list[store.Row]()
    while len(found) < 200 and (row := rows.find(f"{step}.{len(found)}")) is not None:
        found.append(row)
    if not found:
        raise errors.NotFound(f"Run {run} has no worldline {step}.")
    return {"run": run, "step": step, "island": found[0].island, "turns": [_turn(row) for row in found]}


def _turn(row: store.Row) -> dict[str, Any]:
    problem, _, plan = row.content.partition("\n")
    told = {
        "id": row.id,
        "parents": list(row.parents),
        "problem": problem,
        "plan": plan,
        "critic": str(row.meta.get("critic", "")),
        "judge": row.failure or row.feedback,
        "has_failed": row.failure is not None,
        "score": row.score,
        "verdict": row.verdict,
        "terms": {name: row.metrics.get(name) for name in TERMS},
        "task_score": row.metrics.get("task_score"),
    }
    found: dict[str, Any] = plain.data(told, MAX_TURN)
    return found


@router.get("/reviews")
def reviews(kept: Kept, run: RunId) -> dict[str, Any]:
    """Lists the worldlines that a run left in a repository, with what was decided about each.

    A run whose worldlines are texts has none; `why` says so.
    """
    try:
        place = worldlines.desk(kept, run)
        found = [worldlines.told(place, each) for each in worldlines.opened(place).all()]
    except errors.SetupError as error:
        return {"run": run, "reviews": [], "why": str(error)}
    return {"run": run, "reviews": plain.data(found, 2000), "why": None if found else "There is nothing to review yet."}


@router.get("/reviews/{worldline}/diff")
def diff(kept: Kept, run: RunId, worldline: Annotated[str, Field(max_length=80)]) -> dict[str, Any]:
    """Shows how a worldline differs from what it was forked from, as a patch."""
    looked = worldlines.opened(worldlines.desk(kept, run))
    found = looked.get(worldline)
    patch = looked.repository.diff(found.base, found.commit)
    return {"id": found.worldline_id, "commit": found.commit, "patch": plain.text(patch, MAX_PATCH)}


@router.post("/reviews/{worldline}/decision")
def decide(kept: Kept, run: RunId, worldline: Annotated[str, Field(max_length=80)], said: Verdict) -> dict[str, Any]:
    """Approves or rejects a worldline at the commit that was looked at.

    Refused: no reason, who wrote it, a commit that is not the newest, a run that is still at work.
    """
    place = worldlines.desk(kept, run)
    found = worldlines.decide(place, worldline, said.verdict, said.by, said.reason, said.commit)
    told: dict[str, Any] = plain.data(worldlines.told(place, found), 2000)
    return told


@router.post("/reviews/{worldline}/merge")
def merge(kept: Kept, run: RunId, worldline: Annotated[str, Field(max_length=80)]) -> dict[str, Any]:
    """Merges a worldline whose approval stands, and no other, into the branch of the repository's worktree."""
    place = worldlines.desk(kept, run)
    made = worldlines.merge(place, worldline)
    return {
        "id": worldline,
        "merged": made,
        **plain.data(worldlines.told(place, worldlines.opened(place).get(worldline))),
    }
