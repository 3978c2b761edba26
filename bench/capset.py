"""Cap sets without an LLM: the priority function of a greedy search, evolved for one dimension at a time.

    scripts/bench capset                       # n = 6 and 7, 3 seeds each

The initial program is the constant priority of `examples/funsearch_capset`, which gives 2^n points. The candidates are
not written by an LLM, so they share one warm process; a sandbox for each would take ten times as long as the
evaluation. A search ends early at the best known size. The baselines (`bench/baselines.py`) have the same seeds and as
many evaluations. Finished searches are kept in `results/capset.parts.json` until `--fresh`.
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
EXECUTOR = executor.ExecutorConfig(sandbox.Limits(2.0), is_unsafe=True, is_trusted=True)


def searched(n: int, evaluations: int, seed: int, method: str) -> dict[str, Any]:
    """Runs one search. Returns the largest cap set, its priority function and its iteration."""
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
    evolver = llmsr.spawn_evolver(
        config, budget=budget, seed=seed, ordered=True, executor_config=EXECUTOR, modify=change
    )
    threading.Thread(target=end, daemon=True).start()
    evolver.start()
    evolver.join()
    is_over.set()
    took = {"evaluations": evolver.usage.evaluations, "wall seconds": round(time.perf_counter() - since)}
    return {**best, **took}


def table(result: Mapping[int, Mapping[str, Sequence[Mapping[str, Any]]]]) -> outcome.Tables:
    """Returns a row per dimension and seed, and a row with the mean of each method."""
    rows: list[list[object]] = []
    for n, ways in result.items():
        for seed, item in enumerate(zip(*ways.values(), strict=True)):
            ends = [f"{run['at evaluation']} of {run['evaluations']}" for run in item]
            rows.append([n, seed, 2**n, *(run["size"] for run in item), BEST_KNOWN[n], *ends])
        means = [baselines.format_interval([run["size"] for run in runs]) for runs in ways.values()]
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
    parser.add_argument("--fresh", action="store_true", help="run finished searches again")
    args = parser.parse_args()
    parts: dict[str, Any] = json.loads(PARTS.read_text()) if PARTS.exists() and not args.fresh else {}
    result: dict[int, dict[str, list[dict[str, Any]]]] = {}
    for n, seed, method in itertools.product(args.dimensions, range(args.seeds), baselines.METHODS):
        key = f"{n}/{seed}/{args.evaluations}/{method}"
        if key not in parts:
            parts[key] = searched(n, args.evaluations, seed, method)
            PARTS.write_text(json.dumps(parts, indent=1) + "\n")
            print(key, parts[key]["size"], parts[key]["wall seconds"], flush=True)
        result.setdefault(n, {}).setdefault(method, []).append(parts[key])
    notes = [
        f"At most {args.evaluations} evaluations for each search, from the constant priority on; one that used fewer "
        "reached the best size known, or found no new candidate in ten times as many iterations.",
        *(
            verdict
            for n, ways in result.items()
            for verdict in baselines.verdicts(
                f"n = {n}", {name: [run["size"] for run in runs] for name, runs in ways.items()}
            )
        ),
    ]
    outcome.keep("capset", table(result), notes)


if __name__ == "__main__":
    main()
