"""Amounts of work and seeds do not change: more work is not a better program, and another seed is luck."""

import ast
from random import Random

import pytest

from atoll.mutation.syntax import numbers
from atoll.mutation.tuner import engine

PROGRAM = """
def search(f, iterations=1000, rate=0.5, width=25):
    max_iter = 300
    restarts = 3
    step = 0.1
    return f(max_iter, rate * step + 7.5, n_samples=2000)
"""


def test_amounts_of_work_are_found():
    lines, positions = PROGRAM.splitlines(), numbers.find_fixed_literals(ast.parse(PROGRAM))
    found = {lines[line - 1][column:].rstrip(":)").split(",")[0] for line, column in positions}
    assert found == {"1000", "300", "2000"}


@pytest.mark.parametrize("rng", [None, Random(1)])
def test_tuner_changes_no_amount_of_work(rng):
    found = engine.find_literals(PROGRAM, rng=rng)
    assert not {item.start for item in found.tunables} & {1000, 300, 2000}
    assert 25 in {item.start for item in engine.find_literals(PROGRAM).tunables}


def test_tuner_changes_no_seed():
    source = "def search(f, seed=42, width=25):\n    return f(width * 2.5, random_state=13)\n"
    starts = {item.start for item in engine.find_literals(source).tunables}
    assert not starts & {42, 13}
    assert {25, 2.5} <= starts
