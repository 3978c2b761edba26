"""Cap sets with no LLM: the priority of a greedy search, evolved for one dimension at a time.

    scripts/bench capset                       # n = 6 and 7, 3 seeds each

The start is the constant priority of `examples/funsearch_capset`, which gives 2^n points. No model writes the
candidates, so they share one warm process: a jail for each would take ten times as long as judging it. A search ends
early at the best size known. What is done is kept in `results/capset.parts.json` until `--fresh`.
"""

import argparse
import json
import threading
import time
from typing import Any

from atoll import control, executor, llmsr, sandbox
from bench import outcome
from examples.funsearch_capset import task

PARTS = outcome.RESULTS_DIR / "capset.parts.json"
BEST_KNOWN = {6: 112, 7: 236}
PLACE = executor.Place(sandbox.Limits(2.0), is_unsafe=True, is_trusted=True)


def searched(n: int, evaluations: int, seed: int) -> dict[str, Any]:
    """Runs one search and returns the largest cap set it found, its priority and when it was found."""
    best: dict[str, Any] = {"size": 2**n, "source": "", "at evaluation": 0, "steps": []}
    is_over = threading.Event()

    def hear(event: Any) -> None:
        if event.type == "on_best_island_improved":
            fn = event.payload.best_fn()
            if fn.score() > best["size"]:
                best.update({"size": int(fn.score()), "source": str(fn.skeleton())})
                best["at evaluation"] = evolver.spending.evaluations
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
    budget = control.Budget(evaluations=evaluations)
    evolver = llmsr.spawn_evolver(config, budget=budget, seed=seed, ordered=True, place=PLACE)
    threading.Thread(target=end, daemon=True).start()
    evolver.start()
    evolver.join()
    is_over.set()
    return {**best, "wall seconds": round(time.perf_counter() - since)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--evaluations", type=int, default=20_000, help="of each search")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[6, 7])
    parser.add_argument("--fresh", action="store_true", help="forget the searches that are done")
    given = parser.parse_args()
    parts: dict[str, Any] = json.loads(PARTS.read_text()) if PARTS.exists() and not given.fresh else {}
    rows: list[list[object]] = []
    for n in given.dimensions:
        for seed in range(given.seeds):
            key = f"{n}/{seed}/{given.evaluations}"
            if key not in parts:
                parts[key] = searched(n, given.evaluations, seed)
                PARTS.write_text(json.dumps(parts, indent=1) + "\n")
                print(key, parts[key]["size"], flush=True)
            found = parts[key]
            rows.append([n, seed, 2**n, found["size"], BEST_KNOWN[n], found["at evaluation"], found["wall seconds"]])
    columns = ["n", "seed", "start", "Atoll, no LLM", "best known = FunSearch", "at evaluation", "wall seconds"]
    notes = [f"At most {given.evaluations} evaluations for each search, from the constant priority on."]
    outcome.keep("capset", {"Size of the largest cap set": (columns, rows)}, notes)


if __name__ == "__main__":
    main()
