"""Online bin packing without an LLM: trained on generated lists, selected on others, tested once on files.

    scripts/bench packing --data DIR            # DIR holds orlib/binpack1..4.txt and weibull5k/test_0..4.txt

Two searches, one per family of lists, with several seeds each. The baselines (`bench/baselines.py`) have as many
evaluations. Finished searches are kept in `results/packing.parts.json`, so an interrupted run continues; `--fresh`
starts over.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from atoll import executor, function, llmsr, sandbox
from bench import baselines, outcome
from examples.binpacking import task

type Rule = Callable[..., Any]
type Rows = Sequence[Sequence[Any]]

# The candidates are not written by an LLM, so they share one warm process: half the time, same search.
EXECUTOR = executor.ExecutorConfig(sandbox.Limits(30.0), is_unsafe=True, is_trusted=True)
PARTS = outcome.RESULTS_DIR / "packing.parts.json"
GOALS = {"OR3": 3.11, "Weibull 5k": 0.68}
# Published figures: Romera-Paredes et al. 2024, table 1.
MAILBOX_RULE = Path(__file__).parents[1] / "examples" / "binpacking" / "mailbox" / "best.py"
FUNSEARCH = {"OR1": 5.30, "OR2": 4.19, "OR3": 3.11, "OR4": 2.47, "Weibull 5k": 0.68}


class Family(NamedTuple):
    """Lists of one kind.

    Attributes:
        train: Lists that the search sees.
        validation: Lists that select among its results.
        tests: Names of the file sets.
        evaluations: Evaluations per search; one of Weibull lists takes four times as long.
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
    "weibull": Family(task.weibull(seed=0), task.weibull(seed=1), ("Weibull 5k",), 6000),
}


def first_fit(instances: task.Instances) -> list[int]:
    """Returns the bins of each list if each item goes into the first bin with room."""
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
    """Returns the bins beyond the lower bound in percent."""
    bounds = [-(-sum(items) // instances.capacity) for items in instances.items]
    return 100 * (sum(counts) / sum(bounds) - 1)


def excess_of(rule: Rule, lists: Sequence[task.Instances]) -> float:
    return sum(excess(task.num_bins(rule, item), item) for item in lists) / len(lists)


def searched(family: Family, seed: int, method: str) -> dict[str, Any]:
    """Runs one search. Returns its improvement with the best validation result."""
    improved: list[str] = []

    def hear(event: Any) -> None:
        if event.type == "on_best_island_improved":
            improved.append(str(event.payload.best_fn().skeleton()))

    config: llmsr.EvolverConfig[..., Any, Any] = llmsr.EvolverConfig(
        task.priority, list(family.train), task.evaluate, "", hear, num_islands=4, num_parallel=1
    )
    since = time.perf_counter()
    budget, change = baselines.budget(family.evaluations), baselines.change(method)
    evolver = llmsr.spawn_evolver(
        config, budget=budget, seed=seed, ordered=True, executor_config=EXECUTOR, modify=change
    )
    evolver.start()
    evolver.join()
    improved = improved or [str(evolver.best_fn().skeleton())]  # the initial program if nothing was better
    best = min(improved[-20:], key=lambda text: validated(_rule(text), family))
    rule = _rule(best)
    return {
        "source": best,
        "train": excess_of(rule, family.train),
        "validation": excess_of(rule, family.validation),
        "evaluations": evolver.usage.evaluations,
        "wall seconds": round(time.perf_counter() - since),
    }


def validated(rule: Rule, family: Family) -> tuple[bool, float]:
    """Returns the selection key, lowest first: below best fit on lists of every length, then the mean."""
    is_below = all(excess_of(rule, [item]) < excess_of(best_fit, [item]) for item in family.validation)
    return not is_below, excess_of(rule, family.validation)


def _rule(text: str) -> Rule:
    return function.PyAstSkeleton(text, {"np": np, "numpy": np})


def tests(data: Path) -> Mapping[str, Sequence[task.Instances]]:
    """Reads the test files; used only at the end of the benchmark."""
    weibull = [np.loadtxt(data / "weibull5k" / f"test_{number}.txt", skiprows=1, dtype=int) for number in range(5)]
    results = {"Weibull 5k": [task.Instances(100, [item.tolist() for item in weibull])]}
    for number in range(1, 5):
        results[f"OR{number}"] = [_orlib(data / "orlib" / f"binpack{number}.txt")]
    return results


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
    parser.add_argument("--data", type=Path, required=True, help="folder with orlib/ and weibull5k/")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=list(FAMILIES), help="run one family; save packing_FAMILY")
    parser.add_argument("--plain-seeds", type=int, help="seeds of the baselines, if fewer")
    parser.add_argument("--fresh", action="store_true", help="run finished searches again")
    args = parser.parse_args()
    np.seterr(all="ignore")  # a rule that overflows in places may still pack well
    parts: dict[str, Any] = json.loads(PARTS.read_text()) if PARTS.exists() and not args.fresh else {}
    for seed, name, method in itertools.product(range(args.seeds), _families(args), baselines.METHODS):
        key = f"{name}/{seed}/{method}"
        if key not in parts and seed < _num_seeds(method, args):
            parts[key] = searched(FAMILIES[name], seed, method)
            PARTS.write_text(json.dumps(parts, indent=1) + "\n")
            print(key, {item: parts[key][item] for item in ("train", "validation", "wall seconds")}, flush=True)
    report(parts, args)


class Choice(NamedTuple):
    """Results of a method for a family.

    Attributes:
        runs: Results by seed.
        best: Seed with the best validation result.
        excess: Excess by file set and seed.
    """

    runs: Sequence[Mapping[str, Any]]
    best: int
    excess: Mapping[str, Sequence[float]]


def chosen_of(family: Family, runs: Sequence[Mapping[str, Any]], files: Mapping[str, Any]) -> Choice:
    """Selects by validation, then scores all seeds on the test files."""
    rules = [_rule(run["source"]) for run in runs]
    best = min(range(len(runs)), key=lambda seed: validated(rules[seed], family))
    return Choice(runs, best, {test: [excess_of(rule, files[test]) for rule in rules] for test in family.tests})


def report(parts: Mapping[str, Any], value: argparse.Namespace) -> None:
    """Selects by validation, scores the files once, and saves the results."""
    files = tests(value.data)
    runs, rows, chosen, spread = list[list[object]](), list[list[object]](), dict[str, str](), dict[str, Any]()
    for name, family in _families(value).items():
        stored = {
            way: [parts[f"{name}/{seed}/{way}"] for seed in range(_num_seeds(way, value))] for way in baselines.METHODS
        }
        result = {way: chosen_of(family, item, files) for way, item in stored.items()}
        ours = result[baselines.EVOLUTION]
        chosen[name] = ours.runs[ours.best]["source"]
        runs += _searches(name, result)
        spread[f"{name}, validation"] = {way: [run["validation"] for run in item.runs] for way, item in result.items()}
        for test in family.tests:
            fits = [excess(first_fit(file), file) for file in files[test]]
            best = [item.excess[test][item.best] for item in result.values()]
            by_hand = excess_of(_rule(MAILBOX_RULE.read_text()), files[test]) if name == "weibull" else ""
            plain = [fits[0], excess_of(best_fit, files[test])]
            rows.append([test, *plain, *best, by_hand, FUNSEARCH[test], GOALS.get(test, "")])
            spread[test] = {way: item.excess[test] for way, item in result.items()}
    notes = _notes(rows, spread, chosen, value)
    outcome.keep(f"packing_{value.only}" if value.only else "packing", _tables(rows, spread, runs), notes, rules=chosen)


def _tables(rows: Rows, spread: Mapping[str, Any], runs: Rows) -> outcome.Tables:
    ways = [f"{way}, no LLM" for way in baselines.METHODS]
    return {
        "Excess over the lower bound in percent, rule selected by validation": (
            ["set", "first fit", "best fit", *ways, "mailbox", "FunSearch (published, LLM)", "goal"], rows,
        ),
        "Excess over all seeds in percent, 95 %": baselines.compared("set", spread, is_lower_better=True),
        "Searches": (
            ["family", "method", "seed", "train", "validation", "chosen", "files (not used)", "evaluations", "wall s"],
            runs,
        ),
    }  # fmt: skip


def _notes(rows: Rows, spread: Mapping[str, Any], chosen: Mapping[str, str], value: argparse.Namespace) -> list[str]:
    return [
        "Trained on generated lists alone: uniform 20 lists of 250 items, Weibull 5 of 5000. Chosen by "
        "other generated lists, uniform 60 of 120, 30 of 250 and 20 of 500, Weibull 5 of 5000: below best fit on each "
        "of these, then the lowest mean. 3000 and 6000 evaluations for each search, from best fit on.",
        *baselines.tally(spread, is_lower_better=True),
        *_by_choice(rows, value),
        "A rule sees the size of the item and the free space of a bin, and nothing else.",
        "Mailbox: an assistant answered the 8 prompts of one run, and the tuner set the numbers "
        "(`examples/binpacking/mailbox`). It knew the literature, FunSearch's rule included; its rules have another "
        "form, the expected waste of a bin by its free space. The run saw the training lists alone, and its best rule "
        "was scored once on the files.",
        "This is only partly a discovery. The syntax engine's edit `threshold` (np.where(x < b, level, x)), its "
        "weight and the range of its levels were settled after trying, on generated lists, rules of the published "
        "shape 'a tight bin or one that stays wide'. The search found where the threshold belongs and its two "
        "numbers; that such a rule lay one edit away was our doing. The seeds above say how often it is found: the "
        f"chosen rule is the best of {value.seeds} by validation, not the usual one. Earlier trials with other "
        "training lists (20 of 120, 20 of 250 and 10 of 500 together; 40 of 120 and 8 of 500) and without that edit, "
        "or with less of it, stayed near best fit on the uniform lists or got part of the way; 8 lists of 500 alone "
        "did not.",
        *(f"The rule for {name}:\n\n```python\n{text}```" for name, text in chosen.items()),
    ]


def _families(value: argparse.Namespace) -> Mapping[str, Family]:
    return {name: family for name, family in FAMILIES.items() if value.only in (None, name)}


def _num_seeds(method: str, value: argparse.Namespace) -> int:
    is_plain = method != baselines.EVOLUTION and value.plain_seeds is not None
    return min(value.seeds, value.plain_seeds) if is_plain else int(value.seeds)


def _searches(family: str, result: Mapping[str, Choice]) -> Iterator[list[object]]:
    """Yields a row per search."""
    for way, item in result.items():
        for seed, run in enumerate(item.runs):
            mark = "yes" if seed == item.best else ""
            by_file = ", ".join(f"{test} {figures[seed]:.2f}" for test, figures in item.excess.items())
            took = [run["evaluations"], run["wall seconds"]]
            yield [family, way, seed, run["train"], run["validation"], mark, by_file, *took]


def _by_choice(rows: Sequence[Sequence[Any]], value: argparse.Namespace) -> Iterator[str]:
    """Describes on which sets the rule of each baseline is as good as that of evolution."""
    ours, *plain = range(3, 3 + len(baselines.METHODS))
    for position, way in zip(plain, list(baselines.METHODS)[1:], strict=True):
        equal = [str(row[0]) for row in rows if row[position] <= row[ours]]
        yield (
            f"By the selected rules, of {_num_seeds(baselines.EVOLUTION, value)} seeds of evolution and "
            f"{_num_seeds(way, value)} of {way}, {way} is as good as evolution, or better, on: "
            f"{', '.join(equal) or 'no set'}."
        )


if __name__ == "__main__":
    main()
