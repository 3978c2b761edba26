"""Baselines of evolution, with equal budget and equal seeds."""

from typing import Any

import pytest

from atoll import llmsr
from bench import baselines


def steps(x):
    return x + 1.0


def closeness(fn, target):
    return -abs(fn(1.0) - target)


def searched(method: str) -> tuple[float, int, set[str]]:
    """Returns the best score, the evaluations and the parents of all children."""
    parents: set[str] = set()

    def hear(event):
        if event.type == "on_fn_added" and event.payload.candidate is not None:
            parents.update(event.payload.candidate.parents)

    config: llmsr.EvolverConfig[..., Any, Any] = llmsr.EvolverConfig(
        steps, [7.25], closeness, "", hear, num_islands=2, num_parallel=1
    )
    budget, change = baselines.budget(60), baselines.change(method)
    evolver = llmsr.spawn_evolver(config, budget=budget, seed=3, ordered=True, modify=change)
    evolver.run()
    return evolver.best_fn().score() or 0.0, evolver.usage.evaluations, parents


def test_only_best_of_n_derives_every_child_from_the_initial_program():
    found = {name: searched(name) for name in baselines.METHODS}
    assert found["best of N"][2] == {"0.0"}
    assert len(found["sequential"][2]) > 1
    assert len(found[baselines.EVOLUTION][2]) > 1
    assert all(evaluations <= 60 for _, evaluations, _ in found.values())


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ([1.0, 1.0, 2.0], "evolution is better than best of N (+1.333, +1 to +2 over 3 seeds)"),
        ([2.0, 4.0, 3.0], "evolution is MATCHED by best of N (-0.3333, -2 to +1 over 3 seeds)"),
        ([5.0, 5.0, 5.0], "evolution is BEATEN by best of N (-2.333, -3 to -2 over 3 seeds)"),
    ],
)
def test_comparison_uses_paired_differences_by_seed(theirs, said):
    found = {baselines.EVOLUTION: [3.0, 2.0, 3.0], "best of N": theirs}
    assert baselines.verdicts("Here", found) == [f"Here: {said}."]


def test_comparison_of_errors_prefers_lower_values():
    found = {"a set": {baselines.EVOLUTION: [1.0, 1.0, 1.0], "sequential": [2.0, 3.0, 2.5]}}
    columns, rows = baselines.compared("set", found, is_lower_better=True)
    assert dict(zip(columns, rows[0], strict=True)) == {
        "set": "a set",
        "Atoll": "1 [1, 1]",
        "sequential": "2.5 [2, 3]",
        "evolution against sequential": "better (+1.5, +1 to +2 over 3 seeds)",
    }
    assert "better on 1, MATCHED on 0" in baselines.tally(found, is_lower_better=True)[0]


def test_comparison_uses_common_seeds_and_needs_more_than_two():
    found = baselines.lead([1.0, 1.0, 9.0], [0.0, 0.0])
    assert (found.num_seeds, found.word) == (2, "UNDECIDED")
