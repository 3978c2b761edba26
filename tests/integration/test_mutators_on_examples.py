"""The syntax mutator against random changes of constants, with equal evaluations, on the example folders."""

from dataclasses import replace
from pathlib import Path

import pytest

from atoll import cluster, config, control, executor, function, mutation, sandbox, store, system
from tests.mutation.constant_mutator import ConstantMutator
from tests.repetitions import choose

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def best(folder: Path, engine: function.Proposer, evaluations: int, seed: int) -> float:
    """Returns the best score that an engine finds on a task with so many evaluations."""
    plan = config.load(folder)
    place = executor.ExecutorConfig(sandbox.Limits(10.0), 2, is_unsafe=True, is_trusted=True)
    built = plan.build(system.BuildContext(folder, None, place, 2, seed, store.MemoryBlobs()))
    islands = replace(built.config.island_config, mutation_engine=engine)
    budget = control.Budget(evaluations=evaluations, iterations=5 * evaluations)
    run = replace(built.config, island_config=islands, budget=budget, seed=seed, ordered=True, window=4)
    evolver = cluster.Evolver(replace(run, num_parallel=2))
    try:
        evolver.run()
    finally:
        built.close()
    score = evolver.best_fn().score()
    assert score is not None
    return score


@pytest.mark.parametrize(("example", "evaluations"), [("llmsr_oscillator", 80), ("funsearch_capset", 400)])
def test_syntax_mutator_beats_constant_changes(example, evaluations):
    seeds = range(choose(2, 3))
    syntax = [best(EXAMPLES / example, mutation.SyntaxMutator(), evaluations, seed) for seed in seeds]
    constants = [best(EXAMPLES / example, ConstantMutator(), evaluations, seed) for seed in seeds]
    assert all(one > other for one, other in zip(syntax, constants, strict=True))
