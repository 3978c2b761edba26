"""Prompts with a real LLM on three data sets: Atoll, its sequential baseline and GEPA.

Run by bench/gepa.py with --llm. Every system gets the same split, evaluator and LLM. Two contests: equal metric calls,
and equal calls of the reflecting LLM. The sealed test part is scored once, after the search. Finished runs are lines of
`--out`, and the next start continues.
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from atoll import control
from atoll.evolve import events, runner
from bench import baselines, outcome
from bench.tasks import prompt_sets

GEPA = "GEPA 0.1.4"
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
        workers=prompt_sets.WORKERS,
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


class Run(NamedTuple):
    """One run: a system on a data set, with a seed, in one of the two contests."""

    data: str
    budget: str
    seed: int
    system: str


def run_one(
    run: Run, limits: Mapping[str, int], model: str, formulas: Path | None, peer: Callable[..., Any]
) -> dict[str, Any]:
    """Returns the scores and the usage of one run."""
    words = (run.data, run.seed, limits.get("calls", 0), limits.get("replies", 0), model, formulas or "")
    result: dict[str, Any] = (
        peer("prompts", *words)
        if run.system == GEPA
        else atoll_run(run.data, run.seed, run.system, limits, model, formulas)
    )
    return result


def run_all(options: Any, seeds: int, calls: int, peer: Callable[..., Any]) -> None:
    """Runs what `--out` lacks, several runs at once, and saves the tables as `gepa_llm`."""
    contests = {EQUAL_CALLS: {"calls": calls}, EQUAL_REPLIES: {"replies": options.replies}}
    systems = SYSTEMS if options.no_peers else (*SYSTEMS, GEPA)
    rows = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    done = {Run(*(row[key] for key in Run._fields)) for row in rows}
    runs = [
        Run(data, budget, seed, system)
        for seed in range(seeds)
        for budget in contests
        for data in options.data
        for system in systems
    ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        jobs = {
            pool.submit(run_one, run, contests[run.budget], options.llm, options.formulas, peer): run
            for run in runs
            if run not in done
        }
        for job in as_completed(jobs):
            rows.append({**jobs[job]._asdict(), **job.result()})
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print(json.dumps(rows[-1]), flush=True)
    rows = [row for row in rows if Run(*(row[key] for key in Run._fields)) in runs]
    outcome.keep("gepa_llm", tables(rows), verdicts(rows), bench="gepa", model=options.llm, runs=rows)


def group(rows: Sequence[Mapping[str, Any]]) -> Mapping[tuple[str, str], Mapping[str, list[Mapping[str, Any]]]]:
    """Returns the runs of each system by data set and budget."""
    groups: dict[tuple[str, str], dict[str, list[Mapping[str, Any]]]] = {}
    for row in sorted(rows, key=lambda row: (row["data"], row["budget"], row["system"], row["seed"])):
        groups.setdefault((row["data"], row["budget"]), {}).setdefault(row["system"], []).append(row)
    return groups


def tables(rows: Sequence[Mapping[str, Any]]) -> outcome.Tables:
    lines = list[list[object]]()
    for (data, budget), systems in group(rows).items():
        for name, runs in systems.items():
            keys = ("initial", "validation", "calls", "replies")
            means = [statistics.fmean(run[key] for run in runs) for key in keys]
            scores = [run["test"] or 0.0 for run in runs]
            by_seed = ", ".join(f"{score:.3f}" for score in scores)
            lines.append([data, budget, name, len(runs), baselines.format_interval(scores), by_seed, *means])
    columns = ["data", "budget", "system", "seeds", "test, 95 %", "test by seed"]
    columns += ["initial, validation", "validation", "metric calls", "LLM calls"]
    return {"Prompts with a real LLM, means over seeds": (columns, lines)}


def verdicts(rows: Sequence[Mapping[str, Any]]) -> Sequence[str]:
    """Says for each contest whether Atoll is at least as good as GEPA and as its baseline."""
    notes = list[str]()
    for (data, budget), systems in group(rows).items():
        means = {name: statistics.fmean(run["test"] or 0.0 for run in runs) for name, runs in systems.items()}
        ours = means.pop(baselines.EVOLUTION)
        for name, mean in means.items():
            word = "better" if ours > mean else "equal" if ours == mean else "WORSE"
            notes.append(f"{data}, {budget}: Atoll {ours:.4f}, {name} {mean:.4f}: {word}.")
    return notes
