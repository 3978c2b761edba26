"""Cap sets with no LLM: the priority of a greedy search, evolved for one dimension at a time, beside plain ways.

    scripts/bench capset                       # n = 6 and 7, 3 seeds each

The start is the constant priority of `examples/funsearch_capset`, which gives 2^n points. No model writes the
candidates, so they share one warm process: a jail for each would take ten times as long as judging it. A search ends
early at the best size known. Best of N and sequential conditioning (`bench/baselines.py`) have the same seeds and as
many evaluations. What is done is kept in `results/capset.parts.json` until `--fresh`.
"""

import argparse
import itertools
import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from atoll import executor, llmsr, sandbox
from bench import baselines, outcome
from examples.funsearch_capset import task

PARTS = outcome.RESULTS_DIR / "capset.parts.json"
BEST_KNOWN = {6: 112, 7: 236}
PLACE = executor.ExecutorConfig(sandbox.Limits(2.0), is_unsafe=True, is_trusted=True)


def searched(n: int, evaluations: int, seed: int, method: str) -> dict[str, Any]:
    """Runs one search and returns the largest cap set it found, its priority and when it was found."""
    best: dict[str, Any] = {"size": 2**n, "source": "", "at evaluation": 0, "steps": []}
    is_over = threading.Event()

    def hear(event: Any) -> None:
        if event.type == "on_best_island_improved":
            fn = event.payload.best_fn()
            if fn.score() > best["size"]:
                best.update({"size": int(fn.score()), "source": str(fn.skeleton())})
                best["at evaluation"] = evolver.usage.evaluations
                note = fn.candidate.meta if fn.candidate else {}
                best["steps"].append([best["size"], best["at evaluation"], note.get("engine"), note.get("edit")])
            if best["size"] >= BEST_KNOWN[n]:
                is_over.set()

    def end() -> None:
        is_over.wait()
        evolver.stop("best known")

    config: llmsr.EvolverConfig[..., Any, Any] = llmsr.EvolverConfig(
        task.priority, [n], task.evaluate, "", hear, num_islands=6, num_parallel=1
    )
    since = time.perf_counter()
    budget, change = baselines.budget(evaluations), baselines.change(method)
    evolver = llmsr.spawn_evolver(config, budget=budget, seed=seed, ordered=True, executor_config=PLACE, modify=change)
    threading.Thread(target=end, daemon=True).start()
    evolver.start()
    evolver.join()
    is_over.set()
    took = {"evaluations": evolver.usage.evaluations, "wall seconds": round(time.perf_counter() - since)}
    return {**best, **took}


def table(found: Mapping[int, Mapping[str, Sequence[Mapping[str, Any]]]]) -> outcome.Tables:
    """Returns a row for each dimension and seed, and one with the mean of each method; seeds are in order."""
    rows: list[list[object]] = []
    for n, ways in found.items():
        for seed, each in enumerate(zip(*ways.values(), strict=True)):
            ends = [f"{run['at evaluation']} of {run['evaluations']}" for run in each]
            rows.append([n, seed, 2**n, *(run["size"] for run in each), BEST_KNOWN[n], *ends])
        means = [baselines.shown([run["size"] for run in runs]) for runs in ways.values()]
        rows.append([n, "mean, 95 %", 2**n, *means, BEST_KNOWN[n], *("" for _ in ways)])
    columns = ["n", "seed", "start", *map(_titled, baselines.METHODS), "best known = FunSearch"]
    columns += [f"found at, {name}" for name in baselines.METHODS]
    return {"Size of the largest cap set": (columns, rows)}


def _titled(name: str) -> str:
    return f"{name}, no LLM"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evaluations", type=int, default=20_000, help="of each search")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[6, 7])
    parser.add_argument("--fresh", action="store_true", help="forget the searches that are done")
    given = parser.parse_args()
    parts: dict[str, Any] = json.loads(PARTS.read_text()) if PARTS.exists() and not given.fresh else {}
    found: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for n, seed, method in itertools.product(given.dimensions, range(given.seeds), baselines.METHODS):
        key = f"{n}/{seed}/{given.evaluations}/{method}"
        if key not in parts:
            parts[key] = searched(n, given.evaluations, seed, method)
            PARTS.write_text(json.dumps(parts, indent=1) + "\n")
            print(key, parts[key]["size"], parts[key]["wall seconds"], flush=True)
        found.setdefault(n, {}).setdefault(method, []).append(parts[key])
    notes = [
        f"At most {given.evaluations} evaluations for each search, from the constant priority on; one that used fewer "
        "reached the best size known, or had nothing new left to judge in ten times as many steps.",
        *(
            said
            for n, ways in found.items()
            for said in baselines.verdicts(
                f"n = {n}", {name: [run["size"] for run in runs] for name, runs in ways.items()}
            )
        ),
    ]
    outcome.keep("capset", table(found), notes)


if __name__ == "__main__":
    main()
