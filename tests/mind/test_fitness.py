"""Fitness of five weighted terms, island weights and stored weights."""

from collections.abc import Mapping
from typing import Any

import pytest

from atoll import errors, evaluation, function, gate, governed
from atoll.mind import fitness, fitness_weights, plan_evaluator, worldline

METRICS = fitness.make_metrics(contradiction=0.25, divergence=0.5, progress=0.75, review=1.0, cost=0.1)


def test_fitness_is_weighted_sum_of_five_terms():  # A4
    result = fitness.Weights(1, 10, 100, 1000, 10000).compute_fitness(METRICS)
    assert result == pytest.approx(0.75 + 10 * 0.5 + 100 * 0.75 + 1000 - 10000 * 0.1)


def test_consistency_is_one_minus_contradiction():  # hole 1
    assert METRICS["temporal_consistency"] == 0.75
    assert all(weights.temporal_consistency >= 0 for weights in fitness.STRATEGIES.values())


def test_divergence_strategy_rewards_divergence():  # hole 1, A8
    wild, tame = ({**METRICS, "divergence": value} for value in (0.9, 0.1))
    assert fitness.STRATEGIES["divergence"].compute_fitness(wild) > fitness.STRATEGIES["divergence"].compute_fitness(
        tame
    )


def test_island_fitness_uses_weights_of_each_island():  # hole 2, A8
    island_fitness = fitness.IslandFitness([fitness.STRATEGIES[name] for name in fitness.ISLAND_STRATEGIES], 4)
    result = evaluation.Evaluation(0.5, metrics=METRICS)
    assert len({island_fitness(island, result) for island in range(4)}) == 4
    assert island_fitness(0, result) == island_fitness(4, result)  # the first island of the next problem


def test_plan_evaluator_returns_raw_metrics(trips):  # A3
    problem = trips[0]
    evaluate_plan = plan_evaluator.PlanEvaluator({problem.id: problem})
    result = evaluate_plan(function.Text(plan_evaluator.make_content(problem, problem.format_plan(problem.moves))))
    assert set(worldline.METRICS) <= set(result.metrics)
    assert result.metrics["divergence"] == 1  # everything differs from the base, which has no plan
    assert result.score == pytest.approx(fitness.BALANCED.compute_fitness(result.metrics))
    assert evaluate_plan(function.Text("unknown\nplan")).failure


def test_each_term_of_fitness_has_its_own_source(trips):  # A3
    problem = trips[0]
    moves = list(problem.moves)
    parent = problem.format_plan(moves)
    changed = problem.format_plan([moves[1], moves[0], *moves[2:]])

    def compute(plan: str, **measured: Any) -> Mapping[str, float]:
        content = plan_evaluator.make_content(problem, plan)
        return plan_evaluator.PlanEvaluator({problem.id: problem})(plan_evaluator.PlanText(content, **measured)).metrics

    plain = compute(changed)
    reviewed = compute(changed, review_score=1.0)
    assert {name for name in plain if plain[name] != reviewed[name]} == {"review_feedback"}
    costly = compute(changed, tokens=8000)
    assert costly["resource_cost"] == 0.5
    assert compute(changed, tokens=80)["resource_cost"] < 0.1
    derived = compute(changed, parent_plan=parent)
    assert 0 < derived["divergence"] < plain["divergence"] == 1
    assert compute(parent, parent_plan=parent)["divergence"] == 0
    assert compute(parent, parent_plan=parent)["temporal_consistency"] >= derived["temporal_consistency"]


def test_simple_terms_come_from_plan_and_evaluation(trips):
    problem = trips[0]
    plan = problem.format_plan(problem.moves)
    content = plan_evaluator.PlanText(plan_evaluator.make_content(problem, plan), tokens=8000, review_score=-1.0)
    evaluate_plan = plan_evaluator.PlanEvaluator({problem.id: problem}, terms="simple")
    metrics = evaluate_plan(content).metrics
    assert metrics["divergence"] == 0  # the moves in their order are the base
    assert metrics["review_feedback"] == metrics["solved"]
    assert metrics["resource_cost"] < 0.5
    unreadable = evaluate_plan(function.Text(plan_evaluator.make_content(problem, "no plan"))).metrics
    assert unreadable["review_feedback"] == -1


def test_parse_weights_requires_five_numbers():
    with pytest.raises(errors.SetupError, match="five"):
        fitness.parse_weights([1, 2])


class TestStoredWeights:
    @pytest.fixture
    def parameters(self):
        return governed.MemoryParameters()

    def test_propose_changes_weights_only_if_gate_accepts(self, parameters):
        new_weights = fitness.Weights(0.3, 0, 0.6, 0.1, 0)
        closed = fitness_weights.StoredWeights(parameters, lambda proposal: gate.Decision("reject", "not now", "ada"))
        assert closed.propose(new_weights, "try it", "bo").verdict == "reject"
        assert closed.get_current() == (fitness.BALANCED, 0)
        accepting = fitness_weights.StoredWeights(parameters, lambda proposal: gate.Decision("accept", "agreed", "ada"))
        assert accepting.propose(new_weights, "try it", "bo").version == "mind/weights@1"
        assert accepting.get_current() == (new_weights, 1)

    def test_rollback_makes_a_new_version(self, parameters):
        stored = fitness_weights.StoredWeights(parameters, lambda proposal: gate.Decision("accept", "agreed", "ada"))
        for share in (0.2, 0.4):
            stored.propose(fitness.Weights(task_progress=share), "step", "bo")
        assert stored.rollback(1, "worse", "ada").task_progress == 0.2
        assert stored.get_current()[1] == 3

    def test_update_weights_favors_terms_of_approved_worldline(self):
        moved = fitness_weights.update_weights(
            fitness.BALANCED, {"temporal_consistency": 1.0}, {"temporal_consistency": 0.0}
        )
        assert moved.temporal_consistency > fitness.BALANCED.temporal_consistency
        assert sum(map(abs, moved.to_list())) == pytest.approx(1.0)
