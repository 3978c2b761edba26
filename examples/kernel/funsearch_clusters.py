"""FunSearch without an LLM: evolves a formula for the energy of all objects in a table.

A candidate is a Python function. Its scores on six rows are its *signature*. Functions with the same signature share a
cluster, even if their code differs. An iteration draws two clusters, better ones more often, and one function of each,
shorter ones more often. Then it changes one expression of the better function.

Parts: `NichedPopulation` by signature with `DefaultCluster` and `SoftmaxSelector` is the database of FunSearch.
`RoundRobin` schedules islands, migration and resets. The prefilter `gate.reject_duplicates` skips known functions.
"""

import ast
import math
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from atoll import archipelago, cluster, control, function, gate
from atoll.journal import Journal, NullJournal


class Row(NamedTuple):
    """Measurements of one moving object in kilograms, meters per second and joules."""

    name: str
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
MAX_SIZE = 13  # names, numbers and operators in a formula


def closeness(energy: function.Skeleton[[float, float], float], row: Row) -> float:
    """Returns the negative error in powers of two: 0 for the right answer, at least -10."""
    answer = energy(row.mass, row.speed)
    return max(-10.0, 0.0 - round(abs(math.log2(answer / row.energy)), 6)) if answer > 0 else -10.0


class Rewriter:
    """Changes one random expression in the syntax tree of a formula."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        *_, best = context.parents  # worst first
        formula, other = (ast.parse(get_formula(fn), mode="eval").body for fn in (best, context.parents[0]))
        old = context.rng.choice(list_terms(formula))
        changed = NodeReplacer(old, self._change(old, other, context.rng)).visit(formula)
        if len(list_terms(changed)) > MAX_SIZE:
            return []  # an iteration may propose nothing
        return [best.clone(function.PyAstSkeleton(HEADER + ast.unparse(changed)))]

    def _change(self, old: ast.expr, other: ast.expr, rng: Random) -> ast.expr:
        match old:
            case ast.Constant(value=float() | int() as number) if rng.random() < 0.7:
                number = rng.choice((number + 1, number - 1, round(number, 1), number * rng.gauss(1, 0.1)))
                return ast.Constant(float(f"{number:.3g}"))
            case ast.BinOp(left, _, right) if rng.random() < 0.4:
                return rng.choice((left, right, ast.BinOp(left, rng.choice(OPERATORS)(), right)))
        term = rng.choice((ast.Name("mass"), ast.Name("speed"), ast.Constant(rng.randint(1, 9)), *list_terms(other)))
        left, right = rng.sample((old, term), 2)
        return term if rng.random() < 0.3 else ast.BinOp(left, rng.choice(OPERATORS)(), right)


class NodeReplacer(ast.NodeTransformer):
    """Replaces one node by another."""

    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def list_terms(formula: ast.AST) -> list[ast.expr]:
    return [node for node in ast.walk(formula) if isinstance(node, ast.expr)]


def get_formula(fn: function.Function) -> str:
    return str(fn.skeleton()).removeprefix(HEADER)


def make_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> archipelago.Population:
    selector = cluster.SoftmaxSelector(rng, initial_temperature=0.3)
    return cluster.NichedPopulation(
        cluster.by_signature, lambda key: cluster.DefaultCluster(rng, announce), selector, num_parents=2
    )


def make_initial() -> function.Function:
    skeleton = function.PyAstSkeleton(HEADER + START)
    return function.DefaultFunction(function.DefaultFunctionProps(skeleton, TABLE, closeness))


def build(steps: int = 20_000, *, seed: int = 0, workers: int = 2, records: Journal | None = None) -> cluster.Evolver:
    islands = cluster.IslandConfig(
        8, 2, make_initial(), Rewriter(), prefilter=gate.reject_duplicates, make_population=make_population
    )
    config = cluster.EvolverConfig(
        islands,
        num_parallel=workers,
        schedule=cluster.RoundRobin(8, migrate_every=400, reset_every=1_600),
        journal=records or NullJournal(),
        budget=control.Budget(iterations=steps),
        stop_rules=[control.make_target_rule(0.0)],
        seed=seed,
        ordered=True,  # the same seed gives the same run, with any number of workers
    )
    return cluster.Evolver(config)


def main() -> None:
    initial, evolver = make_initial(), build()
    evolver.run()
    best, usage = evolver.best_fn(), evolver.usage
    print(f"initial: energy = {get_formula(initial)}, score {initial.evaluate():.3f}")
    print(f"best:    energy = {get_formula(best)}, score {best.score():.3f}")
    print(f"{evolver.reason}: {usage.iterations} iterations, {usage.evaluations} evaluations")


if __name__ == "__main__":
    main()
