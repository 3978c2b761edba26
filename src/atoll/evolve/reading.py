"""What came of a run, from its evolver and its journal."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from atoll import cluster, evaluation, journal
from atoll.evolve.result import Ancestor, Gain, Result, Spent

_LONGEST_LINE = 200  # ancestors in a result; a store has all


def read(
    evolver: cluster.Evolver, records: journal.Journal, restore: Callable[[str], Any], suffix: str, calls: int | None
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
    known = {data["id"]: data for data in _judged(records)}
    start, found = evaluation.from_data(known["0.0"]["evaluation"]), best.evaluation
    used = evolver.spending
    bought = used.cost
    tokens = bought.tokens_in + bought.tokens_out
    return Result(
        best=restore(best.candidate.content),
        score=found.score or 0.0,
        start=start.score or 0.0,
        test=None,
        gain=gain(found.scores, start.scores),
        baselines={},
        cost=Spent(
            used.evaluations if calls is None else calls, used.iterations, bought.calls, tokens, bought.usd, 0.0
        ),
        lineage=_lineage(known, best.candidate.id),
        scores=found.scores,
        reason=evolver.reason,
        run="",
        content=best.candidate.content,
        suffix=suffix,
    )


def gain(best: Sequence[float], start: Sequence[float]) -> Gain | None:
    """Compares instance by instance; None where there are too few to say how sure that is."""
    if len(best) != len(start) or len(best) < 2:
        return None
    differences = [mine - theirs for mine, theirs in zip(best, start, strict=True)]
    mean = statistics.fmean(differences)
    wide = 1.96 * statistics.stdev(differences) / math.sqrt(len(differences))
    return Gain(mean, mean - wide, mean + wide)


def _judged(records: journal.Journal) -> Sequence[Mapping[str, Any]]:
    """Returns the start and all children that were judged; drafts are not among them."""
    kinds = [record for record in records.read() if record.kind in ("founded", "judged")]
    return [record.data for record in kinds if not str(record.data.get("label", "")).startswith("d")]


def _lineage(known: Mapping[str, Mapping[str, Any]], best: str) -> Sequence[Ancestor]:
    """Returns the best and its ancestors, each once, nearest first."""
    line = [best]
    for id in line:  # grows as it goes
        line += [parent for parent in known[id]["parents"] if parent in known and parent not in line]
        if len(line) >= _LONGEST_LINE:
            break
    return [_ancestor(known[id]) for id in line[:_LONGEST_LINE]]


def _ancestor(data: Mapping[str, Any]) -> Ancestor:
    note = str(data.get("meta", {}).get("note", ""))
    return Ancestor(data["id"], tuple(data["parents"]), data["evaluation"]["score"], data["content"], note)
