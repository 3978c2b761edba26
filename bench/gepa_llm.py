"""Prompts with a real LLM on three data sets: Atoll, its sequential baseline and GEPA.

Run by bench/gepa.py with --llm. Every system gets the same split, evaluator and LLM. Two contests: equal metric calls,
and equal calls of the reflecting LLM. The sealed test part is scored once, after the search.
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import control
from atoll.evolve import events, runner
from bench import baselines, outcome
from bench.tasks import prompt_sets

SYSTEMS = (baselines.EVOLUTION, "sequential")
EQUAL_CALLS, EQUAL_REPLIES = "equal metric calls", "equal LLM calls"
MANY_CALLS = 100_000


def atoll_run(name: str, seed: int, way: str, limits: Mapping[str, int], model: str, formulas: Path | None) -> Any:
    """Runs Atoll or its sequential baseline; returns test score, validation score and usage."""
    task, parts = prompt_sets.Task(name, model), prompt_sets.sets(name, seed, formulas)
    budget = control.Budget(evaluations=limits.get("calls", MANY_CALLS), calls=limits.get("replies"))
    wished = events.EvolveOptions(
        llm=task.reply,
        data=parts.train,
        validation=parts.validation,
        test=parts.test,
        budget=budget,
        seed=seed,
        workers=1,
        verbose=False,
        method=baselines.METHODS[way],
    )
    result = runner.run(prompt_sets.STARTS[name], task.evaluate, wished)
    used = {"calls": result.cost.evaluator_calls, "replies": task.replies}
    return {
        "test": result.test,
        "validation": result.score,
        "initial": result.initial_score,
        **used,
        "best": result.best,
    }


def contest(
    name: str, seed: int, limits: Mapping[str, int], model: str, formulas: Path | None, peer: Callable[..., Any] | None
) -> dict[str, Any]:
    """Runs all systems on one data set with one seed."""
    results = {way: atoll_run(name, seed, way, limits, model, formulas) for way in SYSTEMS}
    if peer is not None:
        words = (name, seed, limits.get("calls", 0), limits.get("replies", 0), model, formulas or "")
        results["GEPA 0.1.4"] = peer("prompts", *words)
    return results


def run(
    model: str,
    formulas: Path | None,
    names: Sequence[str],
    seeds: int,
    calls: int,
    replies: int,
    peer: Callable[..., Any] | None,
) -> None:
    """Runs all contests, and saves the tables as `gepa_llm`."""
    rows = list[dict[str, Any]]()
    for name in names:
        for kind, limits in ((EQUAL_CALLS, {"calls": calls}), (EQUAL_REPLIES, {"replies": replies})):
            for seed in range(seeds):
                systems = contest(name, seed, limits, model, formulas, peer)
                rows.append({"data": name, "budget": kind, "seed": seed, "systems": systems})
                print(json.dumps(rows[-1]), flush=True)
    outcome.keep("gepa_llm", tables(rows), verdicts(rows), bench="gepa", model=model, contests=rows)


def group(rows: Sequence[Mapping[str, Any]]) -> Mapping[tuple[str, str], Mapping[str, list[float]]]:
    """Returns the test scores by data set and budget, of each system by seed."""
    groups: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in rows:
        scores = groups.setdefault((row["data"], row["budget"]), {})
        for name, result in row["systems"].items():
            scores.setdefault(name, []).append(result["test"] or 0.0)
    return groups


def tables(rows: Sequence[Mapping[str, Any]]) -> outcome.Tables:
    lines = list[list[object]]()
    for (data, budget), scores in group(rows).items():
        for name, values in scores.items():
            results = [row["systems"][name] for row in rows if row["data"] == data and row["budget"] == budget]
            means = [statistics.fmean(result[key] for result in results) for key in ("validation", "calls", "replies")]
            lines.append([data, budget, name, statistics.fmean(values), *means])
    columns = ["data", "budget", "system", "test", "validation", "metric calls", "LLM calls"]
    return {"Prompts with a real LLM, means over seeds": (columns, lines)}


def verdicts(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Says for each contest whether Atoll is at least as good as GEPA and as its baseline."""
    notes = list[str]()
    for (data, budget), scores in group(rows).items():
        ours = statistics.fmean(scores[baselines.EVOLUTION])
        others = {name: statistics.fmean(values) for name, values in scores.items() if name != baselines.EVOLUTION}
        for name, mean in others.items():
            word = "better" if ours > mean else "equal" if ours == mean else "WORSE"
            notes.append(f"{data}, {budget}: Atoll {ours:.4f}, {name} {mean:.4f}: {word}.")
    return notes
