"""Results of the syntax mutator, compared with changes of numbers alone.

`pytest tests/mutation/test_syntax_search.py -m "slow or not slow" -s` prints the results of the runs.
"""

from statistics import median

import pytest

from atoll import mutation
from tests.mutation import problems
from tests.mutation.constant_mutator import ConstantMutator

SEEDS = range(5)


@pytest.mark.parametrize(
    ("seeds", "required"), [((1, 4), 1), pytest.param(SEEDS, 4, marks=pytest.mark.slow)], ids=["quick", "complete"]
)
def test_syntax_mutator_finds_law_of_kinetic_energy(seeds, required):
    evolvers = [
        problems.evolve(problems.ENERGY, mutation.SyntaxMutator(), evaluations=3_000, seed=seed) for seed in seeds
    ]
    for evolver in evolvers:
        print(evolver.usage.evaluations, problems.best_score(evolver), repr(str(evolver.best_fn().skeleton())))
    assert sum(map(problems.is_law, evolvers)) >= required


def test_syntax_mutator_improves_cap_sets():
    evolvers = [
        problems.evolve(problems.CAP_SET_4, mutation.SyntaxMutator(), evaluations=1_000, seed=seed) for seed in (0, 4)
    ]
    for evolver in evolvers:
        print(evolver.usage.evaluations, problems.best_score(evolver), repr(str(evolver.best_fn().skeleton())))
    assert all(problems.best_score(evolver) > 16 for evolver in evolvers)
    assert any(problems.best_score(evolver) == 20 for evolver in evolvers)


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "trivial"), [(problems.CAP_SET_4, 16), (problems.CAP_SET_5, 32)], ids=["4", "5"])
def test_syntax_mutator_improves_cap_sets_with_every_seed(problem, trivial):
    evolvers = [problems.evolve(problem, mutation.SyntaxMutator(), evaluations=2_000, seed=seed) for seed in SEEDS]
    for evolver in evolvers:
        print(evolver.usage.evaluations, problems.best_score(evolver), repr(str(evolver.best_fn().skeleton())))
    assert min(map(problems.best_score, evolvers)) > trivial


@pytest.mark.parametrize(
    "problem", [problems.WEIGHTED_CAP_SET, problems.SCALED_ENERGY], ids=["cap set", "kinetic energy"]
)
@pytest.mark.parametrize("evaluations", [250, pytest.param(2_000, marks=pytest.mark.slow)])
def test_syntax_mutator_beats_constant_mutator(problem, evaluations):
    by_syntax, by_constants = (
        [problems.best_score(problems.evolve(problem, engine, evaluations=evaluations, seed=seed)) for seed in SEEDS]
        for engine in (mutation.SyntaxMutator(), ConstantMutator())
    )
    print(evaluations, by_syntax, by_constants)
    assert median(by_syntax) > median(by_constants)
