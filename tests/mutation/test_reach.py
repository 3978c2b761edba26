"""What the syntax engine finds without a model, and that it finds more than moving numbers does.

`pytest tests/mutation/test_reach.py -m "slow or not slow" -s` prints what the runs found.
"""

from statistics import median

import pytest

from atoll import mutation
from tests.mutation import problems
from tests.mutation.constant_mutator import ConstantMutator

SEEDS = range(5)


@pytest.mark.parametrize(
    ("seeds", "wanted"), [((1, 4), 1), pytest.param(SEEDS, 4, marks=pytest.mark.slow)], ids=["quick", "whole"]
)
def test_the_law_of_kinetic_energy_is_found(seeds, wanted):
    found = [
        problems.evolved(problems.ENERGY, mutation.SyntaxMutator(), evaluations=3_000, seed=seed) for seed in seeds
    ]
    for each in found:
        print(each.usage.evaluations, problems.best_score(each), repr(str(each.best_fn().skeleton())))
    assert sum(problems.is_law(each) for each in found) >= wanted


def test_a_priority_from_nothing_makes_larger_cap_sets():
    found = [
        problems.evolved(problems.CAP_SET_4, mutation.SyntaxMutator(), evaluations=1_000, seed=seed) for seed in (0, 4)
    ]
    for each in found:
        print(each.usage.evaluations, problems.best_score(each), repr(str(each.best_fn().skeleton())))
    assert all(problems.best_score(each) > 16 for each in found)
    assert any(problems.best_score(each) == 20 for each in found)


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "trivial"), [(problems.CAP_SET_4, 16), (problems.CAP_SET_5, 32)], ids=["4", "5"])
def test_cap_sets_grow_with_every_seed(problem, trivial):
    found = [problems.evolved(problem, mutation.SyntaxMutator(), evaluations=2_000, seed=seed) for seed in SEEDS]
    for each in found:
        print(each.usage.evaluations, problems.best_score(each), repr(str(each.best_fn().skeleton())))
    assert min(map(problems.best_score, found)) > trivial


@pytest.mark.parametrize(
    "problem", [problems.WEIGHTED_CAP_SET, problems.SCALED_ENERGY], ids=["cap set", "kinetic energy"]
)
@pytest.mark.parametrize("evaluations", [250, pytest.param(2_000, marks=pytest.mark.slow)])
def test_syntax_beats_constants_at_equal_evaluations(problem, evaluations):
    by_syntax, by_constants = (
        [problems.best_score(problems.evolved(problem, engine, evaluations=evaluations, seed=seed)) for seed in SEEDS]
        for engine in (mutation.SyntaxMutator(), ConstantMutator())
    )
    print(evaluations, by_syntax, by_constants)
    assert median(by_syntax) > median(by_constants)
