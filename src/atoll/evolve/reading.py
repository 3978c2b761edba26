"""What came of a run, from its evolver and its journal."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atoll import cluster, evaluation, journal
from atoll.evolve.result import Ancestor, Gain, Result, ResultUsage

_MAX_ANCESTORS = 200  # ancestors in a result; a store has all


def read_result(
    evolver: cluster.Evolver, run_journal: journal.Journal, restore: Callable[[str], Any], suffix: str, evaluator_calls: int | None
) -> Result:
    """Returns the result of a run that has ended, but for its test and its baselines.

    Args:
        restore: Makes of the best text what the caller is given.
        suffix: Of a file with it.
        calls: How often the evaluator was called; None: once per evaluation.

    Raises:
        NotFound: Nothing has a score.
    """
    best = evolver.best_fn()
    assert best.candidate is not None
    assert best.evaluation is not None
    candidates = {data["id"]: data for data in _read_evaluated(run_journal)}
    initial_evaluation, best_evaluation = evaluation.from_data(candidates["0.0"]["evaluation"]), best.evaluation
    usage = evolver.usage
    cost = usage.cost
    tokens = cost.tokens_in + cost.tokens_out
    return Result(
        best=restore(best.candidate.content),
        score=best_evaluation.score or 0.0,
        initial_score=initial_evaluation.score or 0.0,
        test=None,
        gain=compute_gain(best_evaluation.scores, initial_evaluation.scores),
        baselines={},
        cost=ResultUsage(
            usage.evaluations if evaluator_calls is None else evaluator_calls, usage.iterations, cost.calls, tokens, cost.usd, 0.0
        ),
        lineage=_trace_lineage(candidates, best.candidate.id),
        scores=best_evaluation.scores,
        reason=evolver.reason,
        run="",
        content=best.candidate.content,
        suffix=suffix,
    )


def compute_gain(best_scores: Sequence[float], initial_scores: Sequence[float]) -> Gain | None:
    """Compares instance by instance; None where there are too few to say how sure that is."""
    if len(best_scores) != len(initial_scores) or len(best_scores) < 2:
        return None
    differences = [best_score - initial_score for best_score, initial_score in zip(best_scores, initial_scores, strict=True)]
    mean = statistics.fmean(differences)
    half_width = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    return Gain(mean, mean - half_width, mean + half_width)


def _read_evaluated(run_journal: journal.Journal) -> Sequence[Mapping[str, Any]]:
    """Returns the start and all children that were judged; drafts are not among them."""
    evaluated_records = [record for record in run_journal.read() if record.kind in ("founded", "judged")]
    return [record.data for record in evaluated_records if not str(record.data.get("label", "")).startswith("d")]


def _trace_lineage(candidates: Mapping[str, Mapping[str, Any]], best_id: str) -> Sequence[Ancestor]:
    """Returns the best and its ancestors, each once, nearest first."""
    lineage_ids = [best_id]
    for id in lineage_ids:  # grows as it goes
        lineage_ids += [parent for parent in candidates[id]["parents"] if parent in candidates and parent not in lineage_ids]
        if len(lineage_ids) >= _MAX_ANCESTORS:
            break
    return [_make_ancestor(candidates[id]) for id in lineage_ids[:_MAX_ANCESTORS]]


def _make_ancestor(data: Mapping[str, Any]) -> Ancestor:
    note = str(data.get("meta", {}).get("note", ""))
    return Ancestor(data["id"], tuple(data["parents"]), data["evaluation"]["score"], data["content"], note)
