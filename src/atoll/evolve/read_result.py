"""Makes a `Result` of what a run stored."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from atoll import errors, evaluation, noise, runs, store
from atoll.evolve.result import Ancestor, Gain, Result, ResultUsage
from atoll.runs.summary import compute_yield

_MAX_ANCESTORS = 200  # in a result; a store has all


def read_result(session: runs.Session, run_store: store.Store, restore: Callable[[str], Any], suffix: str) -> Result:
    """Returns the result of an ended run, without its test set and baselines.

    Args:
        restore: Turns the text of the best candidate into the object that the caller gets.
        suffix: Suffix of a file with the best candidate.

    Raises:
        KeyboardInterrupt: The user interrupted the run before the initial candidate had a score.
    """
    if session.evolver.reason == "interrupted" and isinstance(
        errors.capture(session.evolver.best_fn), errors.CaughtException
    ):
        raise KeyboardInterrupt
    best, usage = session.evolver.best_fn(), session.evolver.usage
    assert best.candidate is not None
    assert best.evaluation is not None
    records = run_store.journal(session.run_id).read_kinds("founded", "judged")
    candidates = {
        record.data["id"]: record.data for record in records if not str(record.data.get("label", "")).startswith("d")
    }  # without trials
    initial_evaluation, cost = evaluation.from_data(candidates["0.0"]["evaluation"]), usage.cost
    tokens = cost.tokens_in + cost.tokens_out
    call_yield = compute_yield(run_store, session.run_id) if cost.calls else None
    llm_yield = call_yield.ratio if call_yield else None
    return Result(
        best=restore(best.candidate.content),
        score=best.evaluation.score or 0.0,
        initial_score=initial_evaluation.score or 0.0,
        test=None,
        gain=compute_gain(best.evaluation.scores, initial_evaluation.scores),
        baselines={},
        cost=ResultUsage(usage.evaluations, usage.iterations, cost.calls, tokens, cost.usd, 0.0, llm_yield),
        lineage=_trace_lineage(candidates, best.candidate.id),
        scores=best.evaluation.scores,
        reason=session.evolver.reason,
        run=session.run_id,
        content=best.candidate.content,
        suffix=suffix,
        status=_get_status(session.evolver.reason),
        candidates=_list_candidates(candidates.values()),
        score_error=noise.get_error(best.evaluation.metrics),
        initial_error=noise.get_error(initial_evaluation.metrics),
    )


def _get_status(reason: str) -> str:
    return next((status for status in ("interrupted", "stopped", "failed") if reason.startswith(status)), "done")


def _list_candidates(rows: Iterable[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Returns one row per evaluated candidate, for the history."""
    best: float | None = None
    history = list[Mapping[str, Any]]()
    for row in rows:
        score, meta = row["evaluation"]["score"], row.get("meta", {})
        best = score if best is None or (score is not None and score > best) else best
        fields = {"id": row["id"], "iteration": int(row["id"].partition(".")[0]), "score": score, "best_score": best}
        fields |= {"engine": str(meta.get("engine") or ""), "idea": str(meta.get("idea") or meta.get("note") or "")}
        failure = row["evaluation"].get("failure")
        history.append({**fields, "failure": failure or "", "parents": tuple(row["parents"])})
    return history


def compute_gain(best_scores: Sequence[float], initial_scores: Sequence[float]) -> Gain | None:
    """Compares scores instance by instance; None with fewer than two instances."""
    if len(best_scores) != len(initial_scores) or len(best_scores) < 2:
        return None
    differences = [best - initial for best, initial in zip(best_scores, initial_scores, strict=True)]
    mean = statistics.fmean(differences)
    half_width = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    return Gain(mean, mean - half_width, mean + half_width)


def _trace_lineage(candidates: Mapping[str, Mapping[str, Any]], best_id: str) -> Sequence[Ancestor]:
    """Returns the best candidate and its ancestors, each once, nearest first."""
    lineage_ids = [best_id]
    for id in lineage_ids:  # the list grows in this loop
        parents = candidates[id]["parents"]
        lineage_ids += [parent for parent in parents if parent in candidates and parent not in lineage_ids]
        if len(lineage_ids) >= _MAX_ANCESTORS:
            break
    return [_make_ancestor(candidates[id]) for id in lineage_ids[:_MAX_ANCESTORS]]


def _make_ancestor(data: Mapping[str, Any]) -> Ancestor:
    meta = data.get("meta", {})
    note = str(meta.get("idea") or meta.get("note") or "")
    return Ancestor(data["id"], tuple(data["parents"]), data["evaluation"]["score"], data["content"], note)
