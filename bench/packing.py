"""Online bin packing with no LLM: trained on generated lists, chosen by other generated lists, tested once on files.

    scripts/bench packing --data DIR            # DIR holds orlib/binpack1..4.txt and weibull5k/test_0..4.txt

Two searches, one for each family of lists, several seeds each. A search that is done is kept in
`results/packing.parts.json`, so a run that was cut goes on where it was; `--fresh` begins again.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atoll import control, function, llmsr
from bench import outcome
from examples.binpacking import task

type Rule = Callable[..., Any]

PARTS = outcome.RESULTS_DIR / "packing.parts.json"
GOALS = {"OR3": 4.0, "Weibull 5k": 1.5}
# Published figures: Romera-Paredes et al. 2024, table 1.
FUNSEARCH = {"OR1": 5.30, "OR2": 4.19, "OR3": 3.11, "OR4": 2.47, "Weibull 5k": 0.68}


class Family(NamedTuple):
    """Lists of one kind.

    Attributes:
        train: What the search sees.
        validation: What chooses among its results.
        tests: Names of the files' sets.
        evaluations: Of each search; one of Weibull lists takes four times as long.
    """

    train: Sequence[task.Instances]
    validation: Sequence[task.Instances]
    tests: Sequence[str]
    evaluations: int


FAMILIES: Mapping[str, Family] = {
    "uniform": Family(
        task.uniform(seed=0, count=20, num_items=250),
        [*task.uniform(2, 60, 120), *task.uniform(3, 30, 250), *task.uniform(4, 20, 500)],
        ("OR1", "OR2", "OR3", "OR4"),
        3000,
    ),
    "weibull": Family(task.weibull(seed=0), task.weibull(seed=1), ("Weibull 5k",), 1200),
}


def first_fit(instances: task.Instances) -> list[int]:
    """Returns how many bins each list takes when an item goes into the first bin with room."""
    counts = []
    for items in instances.items:
        free = np.full(len(items), instances.capacity)
        for item in items:
            free[int(np.argmax(free >= item))] -= item
        counts.append(int((free < instances.capacity).sum()))
    return counts


def best_fit(item: float, bins: Any) -> Any:
    return item - bins


def excess(counts: Sequence[int], instances: task.Instances) -> float:
    """Returns the bins beyond the lower bound, in per cent."""
    bounds = [-(-sum(items) // instances.capacity) for items in instances.items]
    return 100 * (sum(counts) / sum(bounds) - 1)


def excess_of(rule: Rule, lists: Sequence[task.Instances]) -> float:
    return sum(excess(task.num_bins(rule, each), each) for each in lists) / len(lists)


def searched(family: Family, seed: int) -> dict[str, Any]:
    """Runs one search and returns the best of all its improvements by the validation lists."""
    improved: list[str] = []

    def hear(event: Any) -> None:
        if event.type == "on_best_island_improved":
            improved.append(str(event.payload.best_fn().skeleton()))

    config: llmsr.EvolverConfig[..., Any, Any] = llmsr.EvolverConfig(
        task.priority, list(family.train), task.evaluate, "", hear, num_islands=4, num_parallel=1
    )
    since = time.perf_counter()
    evolver = llmsr.spawn_evolver(
        config, budget=control.Budget(evaluations=family.evaluations), seed=seed, ordered=True
    )
    evolver.start()
    evolver.join()
    best = min(improved[-20:], key=lambda text: validated(_rule(text), family))
    rule = _rule(best)
    return {
        "source": best,
        "train": excess_of(rule, family.train),
        "validation": excess_of(rule, family.validation),
        "wall seconds": round(time.perf_counter() - since),
    }


def validated(rule: Rule, family: Family) -> tuple[bool, float]:
    """Returns what rules are chosen by, lowest first: below best fit on lists of every length, then the mean."""
    is_below = all(excess_of(rule, [each]) < excess_of(best_fit, [each]) for each in family.validation)
    return not is_below, excess_of(rule, family.validation)


def _rule(text: str) -> Rule:
    return function.PyAstSkeleton(text, {"np": np, "numpy": np})


def tests(data: Path) -> Mapping[str, Sequence[task.Instances]]:
    """Reads the files; nothing before the last line of the benchmark does."""
    weibull = [np.loadtxt(data / "weibull5k" / f"test_{number}.txt", skiprows=1, dtype=int) for number in range(5)]
    found = {"Weibull 5k": [task.Instances(100, [each.tolist() for each in weibull])]}
    for number in range(1, 5):
        found[f"OR{number}"] = [_orlib(data / "orlib" / f"binpack{number}.txt")]
    return found


def _orlib(path: Path) -> task.Instances:
    words = iter(path.read_text().split())
    items = []
    for _ in range(int(next(words))):
        next(words)
        capacity, count, _ = int(next(words)), int(next(words)), next(words)
        items.append([int(next(words)) for _ in range(count)])
    return task.Instances(capacity, items)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True, help="the folder with orlib/ and weibull5k/")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--fresh", action="store_true", help="forget the searches that are done")
    given = parser.parse_args()
    parts: dict[str, Any] = json.loads(PARTS.read_text()) if PARTS.exists() and not given.fresh else {}
    for name, family in FAMILIES.items():
        for seed in range(given.seeds):
            key = f"{name}/{seed}"
            if key not in parts:
                parts[key] = searched(family, seed)
                PARTS.write_text(json.dumps(parts, indent=1) + "\n")
                print(key, {each: parts[key][each] for each in ("train", "validation", "wall seconds")}, flush=True)
    report(parts, given)


def report(parts: Mapping[str, Any], given: argparse.Namespace) -> None:
    """Chooses by validation, scores on the files once, and writes it all down."""
    runs, rows, chosen = [], [], {}
    files = tests(given.data)
    for name, family in FAMILIES.items():
        found = {seed: parts[f"{name}/{seed}"] for seed in range(given.seeds)}
        best = min(found, key=lambda seed: validated(_rule(found[seed]["source"]), family))
        chosen[name] = found[best]["source"]
        for seed, each in found.items():
            by_file = [f"{test} {excess_of(_rule(each['source']), files[test]):.2f}" for test in family.tests]
            mark = "yes" if seed == best else ""
            runs.append([name, seed, each["train"], each["validation"], mark, ", ".join(by_file), each["wall seconds"]])
        for test in family.tests:
            fits = [excess(first_fit(each), each) for each in files[test]]
            ours = excess_of(_rule(chosen[name]), files[test])
            rows.append([test, fits[0], excess_of(best_fit, files[test]), ours, FUNSEARCH[test], GOALS.get(test, "")])
    tables = {
        "Excess over the lower bound, per cent": (
            ["set", "first fit", "best fit", "Atoll, no LLM", "FunSearch (published, LLM)", "goal"], rows,
        ),
        "Searches": (["family", "seed", "train", "validation", "chosen", "files (not used)", "wall seconds"], runs),
    }  # fmt: skip
    notes = [
        "Trained on generated lists alone: uniform 20 lists of 250 items, Weibull 5 of 5000. Chosen by "
        "other generated lists, uniform 60 of 120, 30 of 250 and 20 of 500, Weibull 5 of 5000: below best fit on each "
        "of these, then the lowest mean. 3000 and 1200 evaluations for each search, from best fit on.",
        "A rule sees the size of the item and the free space of a bin, and nothing else.",
        *(f"The rule for {name}:\n\n```python\n{text}```" for name, text in chosen.items()),
    ]
    outcome.keep("packing", tables, notes, rules=chosen)


if __name__ == "__main__":
    main()
