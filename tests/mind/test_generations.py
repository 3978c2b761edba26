"""Parent selection, schedule, migration, resets and problem status."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from atoll import archipelago, candidate, cluster, control, evaluation, function, gate, profiler
from atoll.mind import generations, plan_evaluator
from atoll.mind import population as mind_population

NOW = control.RunProgress(0, None, 0)
DECISION = gate.Decision("accept", "", "")


def make_function(
    id: str, score: float, text: str = "", *, rank: float | None = None, **metrics: float
) -> function.Function:
    result = evaluation.Evaluation(score, metrics=metrics)
    props = function.DefaultFunctionProps(
        function.Text(text or f"p\n{id}"), candidate_evaluator=lambda skeleton: result
    )
    new_candidate = candidate.Candidate(id, text or f"p\n{id}")
    return function.DefaultFunction(props).with_evaluation(new_candidate, result, score if rank is None else rank)


def make_population(*scores: float, **settings: Any) -> mind_population.WorldlinePopulation:
    population = mind_population.WorldlinePopulation(
        mind_population.ParentSampling(**settings), mind_population.EliteArchive(15), Random(0)
    )
    for index, score in enumerate(scores):
        population.add_fn(make_function(f"{index}.0", score), DECISION)
    return population


def make_island(index: int, population: mind_population.WorldlinePopulation) -> cluster.Island:
    """Returns an island with a population, as a schedule sees it."""
    return cluster.Island(index, 0, population, profiler.Profilers(), lambda island: island.best_fn())


class TestTournament:
    def test_selection_follows_softmax_of_fitness(self):  # A10
        rng, ranks = Random(0), [0.0, 0.03, 0.06]
        drawn = Counter(mind_population.select_by_tournament(ranks, 1, rng, 0.03)[0] for _ in range(20_000))
        total = sum(2.718281828**k for k in range(3))
        for index in range(3):
            assert drawn[index] / 20_000 == pytest.approx(2.718281828**index / total, abs=0.015)

    def test_parents_are_distinct_and_best_is_last(self):
        drawn = mind_population.select_by_tournament([0.3, 0.1, 0.2], 3, Random(1))
        assert drawn == [1, 2, 0]

    def test_number_of_parents_is_uniform_from_0_to_5(self):  # A21
        population = make_population(*[0.5] * 8)
        numbers = Counter(len(population.select().parents) for _ in range(6_000))
        assert sorted(numbers) == [0, 1, 2, 3, 4, 5]
        assert all(800 < count < 1200 for count in numbers.values())


class TestPopulation:
    def test_population_has_no_duplicate_texts(self):  # A21
        population = make_population(0.5)
        population.add_fn(make_function("9.0", 0.5, "p\n0.0"), DECISION)
        assert len(population.members) == 1

    def test_get_returns_member_after_migrant_with_same_id_returns(self):
        population = mind_population.WorldlinePopulation(
            mind_population.ParentSampling(), mind_population.EliteArchive(0), Random(0)
        )
        for _ in range(2):
            population.add_fn(make_function("1.0", 0.5), DECISION)
        assert population.get("1.0") is population.members[0]

    def test_base_is_never_a_parent(self):  # A2
        population = make_population(pr_no_parents=0.0)
        population.add_fn(make_function("0.0", 0.0, "W0"), DECISION)
        assert population.select().parents == ()
        assert str(population.best_fn().skeleton()) == "W0"

    def test_full_population_removes_the_worst(self):  # hole 5
        population = make_population(0.1, 0.9, 0.5, max_members=2)
        assert sorted(plan_evaluator.get_score(fn) for fn in population.members) == [0.5, 0.9]


class TestGenerations:
    def test_clock_follows_paper_order_with_problem_fastest(self):
        clock = generations.GenerationClock(num_problems=2, num_islands=2, num_convs=2, num_gens=3)
        turns = [clock.get_position(step) for step in range(1, clock.num_iterations + 1)]
        assert turns[:4] == [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 1, 1)]
        assert turns[4] == (0, 1, 0, 0)
        assert turns[-1] == (2, 1, 1, 1)
        schedule = generations.GenerationSchedule(clock)
        assert [schedule.choose_island(step) for step in range(1, 9)] == [0, 2, 0, 2, 1, 3, 1, 3]

    def test_best_migrate_to_next_island_after_generation(self):  # A11
        clock = generations.GenerationClock(1, 3, 2, 10)
        ring = [
            make_island(0, make_population(0.1, 0.9, 0.5)),
            make_island(1, make_population()),
            make_island(2, make_population()),
        ]
        due = generations.GenerationSchedule(clock, num_emigrate=2).plan_actions(2, ring, "")
        migrations = [action for action in due if isinstance(action, archipelago.Migration)]
        assert [(str(action.fn.skeleton()), action.target) for action in migrations] == [("p\n1.0", 1), ("p\n2.0", 1)]
        assert generations.GenerationSchedule(clock).plan_actions(1, ring, "") == ()

    def test_resets_come_after_every_third_generation(self):  # hole 3, A12
        clock = generations.GenerationClock(1, 2, 1, 10)
        ring = [make_island(0, make_population(0.1, 0.2)), make_island(1, make_population(0.9))]
        schedule = generations.GenerationSchedule(clock, num_emigrate=0)
        resets = {step for step in range(1, 19) if schedule.plan_actions(step, ring, "")}
        assert resets == {6, 12, 18}

    def test_reset_uses_common_score_not_island_fitness(self):  # hole 2, A12
        proud = mind_population.WorldlinePopulation(
            mind_population.ParentSampling(), mind_population.EliteArchive(15), Random(0)
        )
        proud.add_fn(make_function("7.0", 0.1, rank=99.0), DECISION)
        ring = [make_island(0, proud), make_island(1, make_population(0.5)), make_island(2, make_population(0.8))]
        (reset,) = generations.reset_lowest_islands(ring, 1, 5, 15)
        assert reset.island == 0

    def test_select_diverse_prefers_different_elites(self):  # A12
        texts = ["p\na\nb\nc", "p\na\nb\nd", "p\nx\ny\nz"]
        fns = [make_function(f"{index}.0", 0.9 - index / 100, text) for index, text in enumerate(texts)]
        assert generations.select_diverse(fns, 2, ()) == [fns[0], fns[2]]
        assert generations.select_by_fitness(fns, 2, ()) == fns[:2]
        assert generations.select_diverse(fns, 2, ("1.0", "2.0")) == fns[1:]

    def test_reset_keeps_at_least_one_island(self):
        ring = [make_island(0, make_population(0.1)), make_island(1, make_population(0.2))]
        assert len(generations.reset_lowest_islands(ring, 2, 5, 15)) == 1


class TestProblemStatus:
    clock = generations.GenerationClock(2, 1, 1, 4)

    def make_result(self, step: int, *children: function.Function) -> function.IterationResult:
        decisions = [(fn, DECISION) for fn in children]
        return function.IterationResult(step, 0, (), {}, decisions, None, evaluation.Cost(0.0, 3, 4, 0.5, 2))

    def test_solved_problem_is_marked_done_in_advice(self):  # A21
        status = generations.ProblemStatus(self.clock)
        status.learn(self.make_result(2, make_function("2.0", 1.0, solved=1.0)))
        assert status.states[1].reason == "satisfied the evaluator in generation 1"
        advice = status.advise(Random(0))
        assert generations.is_problem_done(advice, 1)
        assert not generations.is_problem_done(advice, 0)
        assert (status.states[1].calls, status.states[1].tokens, status.states[1].usd) == (2, 7, 0.5)

    def test_search_without_improvement_converges(self):  # A17
        status = generations.ProblemStatus(self.clock, patience=2)
        for step in (1, 3, 5):
            status.learn(self.make_result(step, make_function(f"{step}.0", 0.5)))
        assert status.states[0].reason == "converged: no improvement in 2 generations"

    def test_approved_worldline_near_base_ends_search(self):  # A17
        status = generations.ProblemStatus(self.clock, epsilon=0.2)
        status.learn(self.make_result(1, make_function("1.0", 0.5, review_feedback=1.0, divergence=0.1)))
        assert "diverges by less than 0.2" in status.states[0].reason

    def test_run_ends_with_reasons_when_all_problems_ended(self):
        status = generations.ProblemStatus(self.clock, patience=0)
        assert status.stop_rule(NOW) is None
        status.learn(self.make_result(2, make_function("2.0", 1.0, solved=1.0)))
        for step in (1, 3, 5, 7):
            status.learn(self.make_result(step, make_function(f"{step}.0", 0.5)))
        assert status.stop_rule(NOW) == "all 2 problems ended: 1 ended after 4 generations, 1 satisfied the evaluator"


def test_population_selects_gets_and_updates():
    population = make_population(0.1, 0.2)
    assert isinstance(population.select(), archipelago.Selection)
    assert population.get("1.0") is population.best_fn()
    population.update_evaluation(make_function("1.0", 0.05))
    assert str(population.best_fn().skeleton()) == "p\n0.0"
