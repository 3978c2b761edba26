"""FunSearch without a language model: a formula evolves until it tells the energy of everything in a table.

A candidate is a Python function. It is scored on six rows, and its six scores are its *signature*: functions that
behave alike share a cluster, however they are written. A step draws two clusters, the better ones more often, takes
a function from each, the shorter ones more often, and rewrites one place of the better one.

Parts: `Niches` by signature, of `DefaultCluster`s under a `SoftmaxChooser`, are FunSearch's database; `RoundRobin`
makes the ring of islands, with migration and resets by steps; the screen `gate.novel` spares judging a repetition.
"""

import ast
import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from atoll import archipelago, cluster, control, function, gate, journal


class Row(NamedTuple):
    """What was measured of one moving thing: kilograms, metres per second, joules."""

    thing: str
    mass: float
    speed: float
    energy: float


TABLE = (
    Row("a rolling ball", 1, 3, 4.5),
    Row("a flying hen", 2, 5, 25),
    Row("a walker", 70, 2, 140),
    Row("a thrown stone", 0.5, 30, 225),
    Row("a cyclist", 80, 8, 2_560),
    Row("a car in town", 1_200, 14, 117_600),
)
HEADER, START = "def energy(mass, speed):\n    return ", "mass"
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
LONGEST = 13  # names, numbers and operators in a formula


def closeness(energy: function.Skeleton[[float, float], float], row: Row) -> float:
    """Returns 0 for the right answer, and 1 less for each factor of 2 that the answer is off, down to -10."""
    answer = energy(row.mass, row.speed)
    return max(-10.0, 0.0 - round(abs(math.log2(answer / row.energy)), 6)) if answer > 0 else -10.0


class Rewriter:
    """Rewrites one place of a formula by its syntax tree; knows nothing of physics."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        *_, best = context.parents  # they come worst first
        formula, other = (ast.parse(formula_of(fn), mode="eval").body for fn in (best, context.parents[0]))
        place = context.rng.choice(terms(formula))
        changed = Swap(place, self._change(place, other, context.rng)).visit(formula)
        if len(terms(changed)) > LONGEST:
            return []  # a step may propose nothing
        return [best.clone(function.PyAstSkeleton(HEADER + ast.unparse(changed)))]

    def _change(self, place: ast.expr, other: ast.expr, rng: Random) -> ast.expr:
        match place:
            case ast.Constant(value=float() | int() as number) if rng.random() < 0.7:
                number = rng.choice((number + 1, number - 1, round(number, 1), number * rng.gauss(1, 0.1)))
                return ast.Constant(float(f"{number:.3g}"))
            case ast.BinOp(left, _, right) if rng.random() < 0.4:
                return rng.choice((left, right, ast.BinOp(left, rng.choice(OPERATORS)(), right)))
        term = rng.choice((ast.Name("mass"), ast.Name("speed"), ast.Constant(rng.randint(1, 9)), *terms(other)))
        left, right = rng.sample((place, term), 2)
        return term if rng.random() < 0.3 else ast.BinOp(left, rng.choice(OPERATORS)(), right)


class Swap(ast.NodeTransformer):
    """Puts one term in the place of another."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def terms(formula: ast.AST) -> list[ast.expr]:
    return [node for node in ast.walk(formula) if isinstance(node, ast.expr)]


def formula_of(fn: function.Function) -> str:
    return str(fn.skeleton()).removeprefix(HEADER)


def make_pool(island: int, rng: Random, announce: cluster.ClusterProfilers) -> archipelago.Population:
    clusters, chooser = (
        lambda key: cluster.DefaultCluster(rng, announce),
        cluster.SoftmaxSelector(rng, initial_temperature=0.3),
    )
    return cluster.NichedPopulation(cluster.by_signature, clusters, chooser, num_parents=2)


def make_start() -> function.Function:
    skeleton = function.PyAstSkeleton(HEADER + START)
    return function.DefaultFunction(function.DefaultFunctionProps(skeleton, TABLE, closeness))


def build(
    steps: int = 20_000, *, seed: int = 0, workers: int = 2, records: journal.Journal | None = None
) -> cluster.Evolver:
    """Puts the parts together; `records` is where the run is kept, if anywhere."""
    islands = cluster.IslandConfig(
        8, 2, make_start(), Rewriter(), prefilter=gate.reject_duplicates, make_population=make_pool
    )
    config = cluster.EvolverConfig(
        islands,
        num_parallel=workers,
        schedule=cluster.RoundRobin(8, migrate_every=400, reset_every=1_600),
        journal=records or journal.NullJournal(),
        budget=control.Budget(iterations=steps),
        stop_rules=[control.make_target_rule(0.0)],
        seed=seed,
        ordered=True,  # the same seed gives the same run, with any number of workers
    )
    return cluster.Evolver(config)


def main() -> None:
    start, evolver = make_start(), build()
    evolver.run()
    best, spent = evolver.best_fn(), evolver.usage
    print(f"start: energy = {formula_of(start)}, score {start.evaluate():.3f}")
    print(f"best:  energy = {formula_of(best)}, score {best.score():.3f}")
    print(f"{evolver.reason}: {spent.iterations} steps, {spent.evaluations} formulas judged")


if __name__ == "__main__":
    main()
