"""One run of `bench/sr.py` in a separate process: METHOD FOLDER SEED SECONDS. Prints a JSON line.

For the baselines the seconds are CPU seconds. Needs only numpy and the method; peers have their own environment.
"""

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FEW_ROWS = 1000
EXACT_ERROR = 1e-10
CHOICE_SECONDS = 4.0  # seconds reserved by Atoll for the selection from the front


class FittedModel(NamedTuple):
    """A model of one method."""

    predict: Callable[[Any], Any]
    size: int
    tried: int
    text: str
    front: Sequence[str] = ()  # laws of x0, x1, ...


def read(path: Path) -> tuple[Any, Any]:
    table = np.loadtxt(path, delimiter=",", skiprows=1)
    return table[:, :-1], table[:, -1]


def ours(x: Any, y: Any, seed: int, seconds: float) -> FittedModel:
    from atoll import llmsr

    outcome = llmsr.Regressor(seconds=seconds - CHOICE_SECONDS, seed=seed).fit(x, y)
    front = [text for _, _, text in outcome.front_]
    return FittedModel(outcome.predict, outcome.law_.size, outcome.num_fits_, outcome.law, front)


def best_of_n(x: Any, y: Any, seed: int, seconds: float) -> FittedModel:
    """Makes every child from the initial law, which has no terms."""
    from atoll import archipelago, cluster
    from atoll.runs import search_methods

    class FromStart(search_methods.BestOfNPopulation):
        def select(self) -> archipelago.Selection:
            return super().select()._replace(inspirations=self.inspirations(self))

    return _plain(x, y, seed, seconds, FromStart, cluster)


def sequential(x: Any, y: Any, seed: int, seconds: float) -> FittedModel:
    """Makes every child from the law that fits the training rows best so far."""
    from atoll import archipelago, cluster

    class FromBest(cluster.NichedPopulation):
        def select(self) -> archipelago.Selection:
            return archipelago.Selection((self.best_fn(),), self.inspirations(self))

    return _plain(x, y, seed, seconds, FromBest, cluster)


def _plain(x: Any, y: Any, seed: int, seconds: float, kind: Any, cluster: Any) -> FittedModel:
    """Searches like Atoll with other parents. Moves, prefilters, archive and final selection are the same."""
    from atoll.llmsr.laws import build, result, search, table

    def make_pool(island: int, rng: Any, announce: Any) -> Any:
        usual = make_population(island, rng, announce)
        return kind(usual.niche_key, usual.make_cluster, usual.selector, inspirations=usual.inspirations)

    train = table.Table([f"x{index}" for index in range(x.shape[1])], "y", x, y)
    searched = search.Search(train.rows, train.domain)
    config = build.make_config(train, searched, 1)
    make_population: Any = config.island_config.make_population
    islands = replace(config.island_config, make_population=make_pool)
    is_over = (lambda now: "all seconds used" if time.process_time() >= seconds else None,)
    evolver = cluster.Evolver(replace(config, island_config=islands, num_parallel=1, seed=seed, stop_rules=is_over))
    evolver.run()
    outcome = result.conclude(evolver, train).chosen.law
    return FittedModel(
        lambda rows: outcome.predict(np.ascontiguousarray(rows.T)),
        outcome.size,
        searched.num_fits,
        outcome.to_text(train.names),
    )


def gplearn(x: Any, y: Any, seed: int, seconds: float) -> FittedModel:
    """Population 1,000, tournament 20, one generation at a time until the time is used."""
    from gplearn.functions import make_function
    from gplearn.genetic import SymbolicRegressor

    exp = make_function(function=lambda values: np.exp(np.clip(values, -50, 50)), name="exp", arity=1)
    model = SymbolicRegressor(
        population_size=1000,
        generations=1,
        function_set=("add", "sub", "mul", "div", "sin", "cos", "sqrt", "log", exp),
        metric="mse",
        tournament_size=20,
        const_range=(-10.0, 10.0),
        parsimony_coefficient=1e-4 * float(np.var(y)),
        p_crossover=0.7,
        p_subtree_mutation=0.1,
        p_hoist_mutation=0.05,
        p_point_mutation=0.1,
        warm_start=True,
        low_memory=True,
        stopping_criteria=0.0,
        random_state=seed,
    )
    since, generations, longest = time.monotonic(), 0, 0.0
    while time.monotonic() - since + longest < seconds:
        began = time.monotonic()
        generations += 1
        model.set_params(generations=generations).fit(x, y)
        longest = time.monotonic() - began
    return FittedModel(model.predict, model._program.length_, 1000 * generations, str(model._program))


def pyoperon(x: Any, y: Any, seed: int, seconds: float, population: int = 1000) -> FittedModel:
    """NSGA-II on error and length with 10 least-squares steps each; the best of its front by training error."""
    from pyoperon.sklearn import SymbolicRegressor

    model = SymbolicRegressor(
        allowed_symbols="add,sub,mul,div,sin,cos,exp,log,sqrt,tanh,pow,constant,variable",
        population_size=population,
        pool_size=population,
        generations=1_000_000,
        max_evaluations=2_000_000_000,
        max_length=50,
        max_depth=10,
        optimizer_iterations=10,
        local_search_probability=1.0,
        objectives=["r2", "length"],
        offspring_generator="basic",
        n_threads=1,
        max_time=int(seconds),
        random_state=seed,
    )
    model.fit(x, y)
    errors = [float(np.mean((y - model.evaluate_model(item["tree"], x)) ** 2)) for item in model.pareto_front_]
    best = model.pareto_front_[int(np.nanargmin(errors))]["tree"]
    tried = int(model.stats_.get("residual_evaluations", 0))
    return FittedModel(
        lambda rows: model.evaluate_model(best, rows), int(best.Length), tried, model.get_model_string(best, 6)
    )


def pyoperon_few(x: Any, y: Any, seed: int, seconds: float) -> FittedModel:
    """As `pyoperon`, on 1,000 rows with a population of 500."""
    chosen = np.linspace(0, len(y) - 1, min(FEW_ROWS, len(y))).astype(int)
    return pyoperon(x[chosen], y[chosen], seed, seconds, 500)


METHODS = {
    "ours": ours,
    "best of N": best_of_n,
    "sequential": sequential,
    "gplearn": gplearn,
    "pyoperon": pyoperon,
    "pyoperon, 1000 rows": pyoperon_few,
}


def is_exact(text: str, folder: Path) -> bool:
    """Returns whether a law has almost no error on both test files."""
    for split in ("test_id", "test_ood"):
        rows, target = read(folder / f"{split}.csv")
        names = {f"x{index}": column for index, column in enumerate(rows.T)}
        with np.errstate(all="ignore"):
            error = np.mean((target - eval(text, {"np": np, **names})) ** 2) / np.var(target)
        if not error < EXACT_ERROR:
            return False
    return True


def main(method: str, folder: Path, seed: int, seconds: float) -> None:
    warnings.filterwarnings("ignore")
    x, y = read(folder / "train.csv")
    outcome = METHODS[method](x, y, seed, seconds)
    cpu = time.process_time()
    nmse: dict[str, float] = {}
    for split in ("train", "test_id", "test_ood"):
        rows, target = read(folder / f"{split}.csv")
        with np.errstate(all="ignore"):
            nmse[split] = float(np.mean((target - outcome.predict(rows)) ** 2) / np.var(target))
    has_exact = any(is_exact(text, folder) for text in outcome.front)
    facts = {"has_exact": has_exact} if outcome.front else {}
    print(
        json.dumps(
            {**facts, "nmse": nmse, "size": outcome.size, "cpu": cpu, "tried": outcome.tried, "model": outcome.text}
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
