"""Statistics and tables of the race."""

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, TypeGuard

from bench import outcome
from bench.race_systems import Program

type Row = Mapping[str, Any]

GAIN_SHARE = 0.9
MIN_RUNS = 3  # quartiles of fewer runs are not compared
NUM_RESAMPLES = 2000
_MEASURES = {
    "yield": "yield",
    "valid": "valid per call",
    "calls_to_gain": "calls to 90 % of gain",
    "from_best": "from the best",
    "from_initial": "from the initial",
    "programs": "evaluations",
    "calls": "calls",
    "tokens_per_call": "tokens per call",
}
_SHORT = ("yield", "valid", "calls_to_gain", "from_best", "from_initial", "programs", "tokens_per_call")


def measure_search(programs: Sequence[Program], calls: int, workers: int, fail_score: float) -> dict[str, Any]:
    """Measures how a run searched.

    A parent counts as the best if no program was better `2 * workers` iterations before its child; later results may
    have been missing when the parent was selected. Systems number iterations, so the calls until a gain are the share
    of iterations until it, times the calls.

    Args:
        fail_score: Score of failed programs.
    """
    initial = next((program for program in programs if program.parent is None), None)
    if initial is None:
        return {}
    valid = {program.id: score for program in programs if is_valid(score := program.score, fail_score)}
    from_llm = [program for program in programs if program.is_from_llm and program.text.strip() != initial.text.strip()]
    texts = {program.text.strip() for program in from_llm}
    valid_texts = {program.text.strip() for program in from_llm if program.id in valid}
    by_id = {program.id: program for program in programs}
    children = [program for program in programs if program.parent in by_id and program.is_from_llm]
    parents = [by_id[child.parent or ""] for child in children]
    best_parents = 0
    for child, parent in zip(children, parents, strict=True):
        first_unknown = max(1, child.iteration - 2 * workers)
        known = [valid[item.id] for item in programs if item.id in valid and item.iteration < first_unknown]
        best_parents += valid.get(parent.id, -math.inf) >= max(known, default=-math.inf)
    from_initial = sum(parent.text.strip() == initial.text.strip() for parent in parents)
    return {
        "initial": initial.score,
        "best": max(valid.values(), default=None),
        "programs": len(programs) - 1,
        "distinct": len(texts),
        "yield": len(texts) / calls if calls else None,
        "valid": len(valid_texts) / calls if calls else None,
        "calls_to_gain": _find_gain(programs, valid, calls),
        "from_best": best_parents / len(children) if children else None,
        "from_initial": from_initial / len(children) if children else None,
    }


def _find_gain(programs: Sequence[Program], valid: Mapping[str, float], calls: int) -> float | None:
    """Returns the calls until 90 % of the gain over the initial program; None if there is no gain."""
    ordered = sorted((program for program in programs if program.id in valid), key=lambda program: program.iteration)
    scores = [valid[program.id] for program in ordered]
    iterations = max((program.iteration for program in programs), default=0)
    if not scores or max(scores) <= scores[0] or ordered[0].iteration > 0:
        return None
    threshold = scores[0] + GAIN_SHARE * (max(scores) - scores[0])
    reached = next(program.iteration for program, score in zip(ordered, scores, strict=True) if score >= threshold)
    return reached * calls / iterations


def is_valid(score: float | None, fail_score: float) -> TypeGuard[float]:
    """Whether a program was evaluated without a failure."""
    return score is not None and math.isfinite(score) and score > fail_score


def make_tables(rows: Sequence[Row], initial: Mapping[str, float | None]) -> outcome.Tables:
    """Returns the tables of judged runs.

    Args:
        initial: Judged score of the initial program of each task.
    """
    tasks, systems = list(dict.fromkeys(row["task"] for row in rows)), _list_systems(rows)
    table: list[list[object]] = []
    for task in tasks:
        for system in systems:
            chosen = [row for row in rows if (row["task"], row["system"]) == (task, system)]
            if chosen:
                score_cells = _format_scores([row["judged"] for row in chosen])
                cells = [_median(chosen, key) for key in _MEASURES]
                table.append([task, system, len(chosen), _cell(initial.get(task)), *score_cells, *cells])
    means: list[list[object]] = []
    for system in systems:
        chosen = [row for row in rows if row["system"] == system]
        gains = [gain for task in tasks if (gain := _gain_share(rows, task, system, initial.get(task))) is not None]
        share = f"{statistics.fmean(gains):.0%}" if gains else "-"
        run_share = _format_run_share([list_run_shares(rows, task, system, initial.get(task)) for task in tasks])
        means.append([system, len(chosen), share, run_share, *(_median(chosen, key) for key in _SHORT)])
    columns = ["task", "system", "runs", "initial", "median", "quartiles", *_MEASURES.values()]
    mean_columns = ["system", "runs", "mean share of the best gain", _RUN_SHARE, *(_MEASURES[key] for key in _SHORT)]
    return {
        "Judged score of the best program": (columns, table),
        "All tasks": (mean_columns, means),
        "Atoll against the others, by the median of each task": (_COMPARED, list(compare(rows))),
    }


_RUN_SHARE = "mean share by run (95 %)"
_COMPARED = ("system", "against", "better", "equal", "worse", "better, quartiles apart", "worse, quartiles apart")


def compare(rows: Sequence[Row]) -> Iterator[list[object]]:
    """Yields the tasks on which Atoll is better, equal or worse than each other system, on their common seeds."""
    systems = _list_systems(rows)
    for ours in [system for system in systems if system.partition(":")[0] == "atoll"]:
        for theirs in [system for system in systems if system != ours]:
            counts = dict.fromkeys(("better", "equal", "worse", "better apart", "worse apart"), 0)
            for task in dict.fromkeys(row["task"] for row in rows):
                first, second = (_scores_by_seed(rows, task, system) for system in (ours, theirs))
                common = sorted(first.keys() & second.keys())
                if common:
                    for verdict in _compare_scores([first[seed] for seed in common], [second[seed] for seed in common]):
                        counts[verdict] += 1
            yield [ours, theirs, *counts.values()]


def _compare_scores(first: Sequence[float], second: Sequence[float]) -> Iterator[str]:
    ours, theirs = statistics.median(first), statistics.median(second)
    if math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-9):
        yield "equal"
        return
    verdict = "better" if ours > theirs else "worse"
    yield verdict
    (low, high), (their_low, their_high) = find_quartiles(first), find_quartiles(second)
    if len(first) >= MIN_RUNS and (low > their_high or high < their_low):
        yield f"{verdict} apart"


def find_quartiles(scores: Sequence[float]) -> tuple[float, float]:
    """Returns the lower and the upper quartile; of one score, that score."""
    if len(scores) < 2:
        return scores[0], scores[0]
    low, _, high = statistics.quantiles(scores, n=4, method="inclusive")
    return low, high


def _scores_by_seed(rows: Sequence[Row], task: str, system: str) -> dict[int, float]:
    chosen = (row for row in rows if (row["task"], row["system"]) == (task, system))
    return {row["seed"]: row["judged"] for row in chosen}


def _gain_share(rows: Sequence[Row], task: str, system: str, initial: float | None) -> float | None:
    """Returns the gain of a system on a task, divided by the largest gain of a system; 1 is the best."""
    medians = {
        name: statistics.median(scores)
        for name in _list_systems(rows)
        if (scores := list(_scores_by_seed(rows, task, name).values()))
    }
    if initial is None or system not in medians or max(medians.values()) <= initial:
        return None
    return max(0.0, medians[system] - initial) / (max(medians.values()) - initial)


def list_run_shares(rows: Sequence[Row], task: str, system: str, initial: float | None) -> list[float]:
    """Returns the gain of each run of a system on a task, divided by the largest gain of any run."""
    best = max((row["judged"] for row in rows if row["task"] == task), default=-math.inf)
    if initial is None or best <= initial:
        return []
    scores = _scores_by_seed(rows, task, system).values()
    return [max(0.0, score - initial) / (best - initial) for score in scores]


def _format_run_share(shares: Sequence[Sequence[float]]) -> str:
    """Returns the mean over tasks, with an interval from runs drawn again within each task."""
    groups = [group for group in shares if group]
    if not groups:
        return "-"
    rng = Random(0)
    means = sorted(
        statistics.fmean(statistics.fmean(rng.choices(group, k=len(group))) for group in groups)
        for _ in range(NUM_RESAMPLES)
    )
    low, high = means[int(0.025 * NUM_RESAMPLES)], means[int(0.975 * NUM_RESAMPLES) - 1]
    return f"{statistics.fmean(map(statistics.fmean, groups)):.0%} ({low:.0%} to {high:.0%})"


def _list_systems(rows: Sequence[Row]) -> list[str]:
    names = dict.fromkeys(str(row["system"]) for row in rows)
    return sorted(names, key=lambda name: (not name.startswith("atoll"), name))


def _format_scores(scores: Sequence[float]) -> tuple[str, str]:
    low, high = find_quartiles(scores)
    return f"{statistics.median(scores):.4g}", f"{low:.4g} to {high:.4g}"


def _median(rows: Sequence[Row], key: str) -> str:
    values = [row[key] for row in rows if row.get(key) is not None]
    return f"{statistics.median(values):.3g}" if values else "-"


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
