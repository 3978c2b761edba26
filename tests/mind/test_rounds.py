"""Turns, parents, migration and resets."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from atoll import archipelago, candidate, cluster, control, evaluation, function, gate, profiler
from atoll.mind import generations, plan_evaluator, problem_status
from atoll.mind import population as mind_population

NOW = control.RunProgress(0, None, 0)
DECISION = gate.Decision("accept", "", "")


def made(id: str, score: float, text: str = "", *, rank: float | None = None, **metrics: float) -> function.Function:
    found = evaluation.Evaluation(score, metrics=metrics)
    props = function.DefaultFunctionProps(function.Text(text or f"p\n{id}"), candidate_evaluator=lambda skeleton: found)
    born = candidate.Candidate(id, text or f"p\n{id}")
    return function.DefaultFunction(props).with_evaluation(born, found, score if rank is None else rank)


def population(*scores: float, **how: Any) -> mind_population.WorldlinePopulation:
    kept = mind_population.WorldlinePopulation(
        mind_population.ParentSampling(**how), mind_population.EliteArchive(15), Random(0)
    )
    for place, score in enumerate(scores):
        kept.add_fn(made(f"{place}.0", score), DECISION)
    return kept


def place(index: int, kept: mind_population.WorldlinePopulation) -> cluster.Island:
    """Returns an island with a population, as a schedule sees it."""
    return cluster.Island(index, 0, kept, profiler.Profilers(), lambda island: island.best_fn())


class TestTournament:
    def test_draws_follow_the_softmax_of_the_ranks(self):  # A10
        rng, ranks = Random(0), [0.0, 0.03, 0.06]
        drawn = Counter(mind_population.select_by_tournament(ranks, 1, rng, 0.03)[0] for _ in range(20_000))
        total = sum(2.718281828**k for k in range(3))
        for place in range(3):
            assert drawn[place] / 20_000 == pytest.approx(2.718281828**place / total, abs=0.015)

    def test_parents_are_different_and_the_best_comes_last(self):
        drawn = mind_population.select_by_tournament([0.3, 0.1, 0.2], 3, Random(1))
        assert drawn == [1, 2, 0]

    def test_the_number_of_parents_is_uniform_from_0_to_5_by_default(self):  # A21
        kept = population(*[0.5] * 8)
        numbers = Counter(len(kept.select().parents) for _ in range(6_000))
        assert sorted(numbers) == [0, 1, 2, 3, 4, 5]
        assert all(800 < count < 1200 for count in numbers.values())


class TestPopulation:
    def test_no_text_stands_twice(self):  # A21
        kept = population(0.5)
        kept.add_fn(made("9.0", 0.5, "p\n0.0"), DECISION)
        assert len(kept.members) == 1

    def test_a_member_is_found_after_a_migrant_of_its_id_came_home(self):
        kept = mind_population.WorldlinePopulation(
            mind_population.ParentSampling(), mind_population.EliteArchive(0), Random(0)
        )
        for _ in range(2):
            kept.add_fn(made("1.0", 0.5), DECISION)
        assert kept.get("1.0") is kept.members[0]

    def test_the_base_founds_an_island_and_is_nobodys_parent(self):  # A2
        kept = population(pr_no_parents=0.0)
        kept.add_fn(made("0.0", 0.0, "W0"), DECISION)
        assert kept.select().parents == ()
        assert str(kept.best_fn().skeleton()) == "W0"

    def test_the_worst_leave_where_there_is_no_room(self):  # hole 5
        kept = population(0.1, 0.9, 0.5, max_members=2)
        assert sorted(plan_evaluator.get_score(fn) for fn in kept.members) == [0.5, 0.9]


class TestRounds:
    def test_islands_take_turns_in_the_papers_order_and_problems_are_the_inmost(self):
        counted = generations.GenerationClock(num_problems=2, num_islands=2, num_convs=2, num_gens=3)
        turns = [counted.get_position(step) for step in range(1, counted.num_iterations + 1)]
        assert turns[:4] == [(0, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0), (0, 0, 1, 1)]
        assert turns[4] == (0, 1, 0, 0)
        assert turns[-1] == (2, 1, 1, 1)
        exchange = generations.GenerationSchedule(counted)
        assert [exchange.choose_island(step) for step in range(1, 9)] == [0, 2, 0, 2, 1, 3, 1, 3]

    def test_the_best_swim_to_the_next_island_when_its_generation_is_over(self):  # A11
        counted = generations.GenerationClock(1, 3, 2, 10)
        ring = [place(0, population(0.1, 0.9, 0.5)), place(1, population()), place(2, population())]
        due = generations.GenerationSchedule(counted, num_emigrate=2).plan_actions(2, ring, "")
        swam = [each for each in due if isinstance(each, archipelago.Migration)]
        assert [(str(each.fn.skeleton()), each.target) for each in swam] == [("p\n1.0", 1), ("p\n2.0", 1)]
        assert generations.GenerationSchedule(counted).plan_actions(1, ring, "") == ()

    def test_nothing_is_reset_before_the_third_generation_is_over(self):  # hole 3, A12
        counted = generations.GenerationClock(1, 2, 1, 10)
        ring = [place(0, population(0.1, 0.2)), place(1, population(0.9))]
        exchange = generations.GenerationSchedule(counted, num_emigrate=0)
        resets = {step for step in range(1, 19) if exchange.plan_actions(step, ring, "")}
        assert resets == {6, 12, 18}

    def test_the_islands_with_the_lowest_mean_score_are_reset_whatever_their_own_ranks_say(self):  # hole 2, A12
        proud = mind_population.WorldlinePopulation(
            mind_population.ParentSampling(), mind_population.EliteArchive(15), Random(0)
        )
        proud.add_fn(made("7.0", 0.1, rank=99.0), DECISION)
        ring = [place(0, proud), place(1, population(0.5)), place(2, population(0.8))]
        (reset,) = generations.reset_lowest_islands(ring, 1, 5, 15)
        assert reset.island == 0

    def test_elites_are_elected_for_difference(self):  # A12
        texts = ["p\na\nb\nc", "p\na\nb\nd", "p\nx\ny\nz"]
        fns = [made(f"{place}.0", 0.9 - place / 100, text) for place, text in enumerate(texts)]
        assert generations.select_diverse(fns, 2, ()) == [fns[0], fns[2]]
        assert generations.select_by_fitness(fns, 2, ()) == fns[:2]
        assert generations.select_diverse(fns, 2, ("1.0", "2.0")) == fns[1:]

    def test_one_island_stays_at_least(self):
        ring = [place(0, population(0.1)), place(1, population(0.2))]
        assert len(generations.reset_lowest_islands(ring, 2, 5, 15)) == 1


class TestStanding:
    counted = generations.GenerationClock(2, 1, 1, 4)

    def outcome(self, step: int, *children: function.Function) -> function.IterationResult:
        told = [(fn, DECISION) for fn in children]
        return function.IterationResult(step, 0, (), {}, told, None, evaluation.Cost(0.0, 3, 4, 0.5, 2))

    def test_a_problem_that_is_solved_is_over_and_steps_are_told(self):  # A21
        known = problem_status.ProblemStatus(self.counted)
        known.learn(self.outcome(2, made("2.0", 1.0, solved=1.0)))
        assert known.states[1].reason == "satisfied the judge in generation 1"
        advice = known.advise(Random(0))
        assert problem_status.is_problem_done(advice, 1)
        assert not problem_status.is_problem_done(advice, 0)
        assert (known.states[1].calls, known.states[1].tokens, known.states[1].usd) == (2, 7, 0.5)

    def test_a_search_that_does_not_rise_converges_and_says_so(self):  # A17
        known = problem_status.ProblemStatus(self.counted, patience=2)
        for step in (1, 3, 5):
            known.learn(self.outcome(step, made(f"{step}.0", 0.5)))
        assert known.states[0].reason == "converged: no rise in 2 generations"

    def test_an_approved_worldline_near_the_base_ends_the_search(self):  # A17
        known = problem_status.ProblemStatus(self.counted, epsilon=0.2)
        known.learn(self.outcome(1, made("1.0", 0.5, review_feedback=1.0, divergence=0.1)))
        assert "diverges by less than 0.2" in known.states[0].reason

    def test_the_run_ends_when_all_are_over_with_the_reasons(self):
        known = problem_status.ProblemStatus(self.counted, patience=0)
        assert known.stop_rule(NOW) is None
        known.learn(self.outcome(2, made("2.0", 1.0, solved=1.0)))
        for step in (1, 3, 5, 7):
            known.learn(self.outcome(step, made(f"{step}.0", 0.5)))
        assert known.stop_rule(NOW) == "all 2 problems are over: 1 4 generations done, 1 satisfied the judge"


def test_a_population_is_a_pool():
    kept = population(0.1, 0.2)
    assert isinstance(kept.select(), archipelago.Selection)
    assert kept.get("1.0") is kept.best_fn()
    kept.update_evaluation(made("1.0", 0.05))
    assert str(kept.best_fn().skeleton()) == "p\n0.0"
