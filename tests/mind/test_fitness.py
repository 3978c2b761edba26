"""Five weighted terms, raw metrics kept, islands that rank their own way."""

import pytest

from atoll import errors, evaluation, function, gate, governed
from atoll.mind import fitness, fitness_weights, plan_evaluator, worldline

METRICS = fitness.make_metrics(contradiction=0.25, divergence=0.5, progress=0.75, review=1.0, cost=0.1)


def test_the_fitness_is_the_sum_of_five_weighted_terms():  # A4
    found = fitness.Weights(1, 10, 100, 1000, 10000).compute_fitness(METRICS)
    assert found == pytest.approx(0.75 + 10 * 0.5 + 100 * 0.75 + 1000 - 10000 * 0.1)


def test_consistency_is_one_minus_contradiction_so_that_more_is_better():  # hole 1
    assert METRICS["temporal_consistency"] == 0.75
    assert all(each.temporal_consistency >= 0 for each in fitness.STRATEGIES.values())


def test_the_island_of_divergence_wants_to_be_unlike_the_base():  # hole 1, A8
    wild, tame = ({**METRICS, "divergence": value} for value in (0.9, 0.1))
    assert fitness.STRATEGIES["divergence"].compute_fitness(wild) > fitness.STRATEGIES["divergence"].compute_fitness(
        tame
    )


def test_every_island_ranks_the_same_raw_metrics_by_its_own_weights():  # hole 2, A8
    rank = fitness.IslandFitness([fitness.STRATEGIES[name] for name in fitness.ISLAND_STRATEGIES], 4)
    found = evaluation.Evaluation(0.5, metrics=METRICS)
    assert len({rank(island, found) for island in range(4)}) == 4
    assert rank(0, found) == rank(4, found)  # the first island of the next problem


def test_a_plan_is_judged_with_its_raw_vector(trips):  # A3
    problem = trips[0]
    judged = plan_evaluator.PlanEvaluator({problem.id: problem})
    found = judged(function.Text(plan_evaluator.make_content(problem, problem.format_plan(problem.moves))))
    assert set(worldline.METRICS) <= set(found.metrics)
    assert found.metrics["divergence"] == 0  # the moves in their order are the base
    assert found.score == pytest.approx(fitness.BALANCED.compute_fitness(found.metrics))
    assert judged(function.Text("unknown\nplan")).failure


def test_weights_that_are_not_five_are_refused():
    with pytest.raises(errors.SetupError, match="five"):
        fitness.parse_weights([1, 2])


class TestWeightBook:
    @pytest.fixture
    def kept(self):
        return governed.MemoryParameters()

    def test_weights_change_only_where_the_gate_accepts(self, kept):
        wanted = fitness.Weights(0.3, 0, 0.6, 0.1, 0)
        shut = fitness_weights.StoredWeights(kept, lambda proposal: gate.Decision("reject", "not now", "ada"))
        assert shut.propose(wanted, "try it", "bo").verdict == "reject"
        assert shut.get_current() == (fitness.BALANCED, 0)
        wide = fitness_weights.StoredWeights(kept, lambda proposal: gate.Decision("accept", "agreed", "ada"))
        assert wide.propose(wanted, "try it", "bo").version == "mind/weights@1"
        assert wide.get_current() == (wanted, 1)

    def test_old_weights_come_back_as_a_new_version(self, kept):
        book = fitness_weights.StoredWeights(kept, lambda proposal: gate.Decision("accept", "agreed", "ada"))
        for share in (0.2, 0.4):
            book.propose(fitness.Weights(task_progress=share), "step", "bo")
        assert book.rollback(1, "worse", "ada").task_progress == 0.2
        assert book.get_current()[1] == 3

    def test_an_approval_against_a_rejection_moves_weights_towards_what_was_approved(self):
        moved = fitness_weights.update_weights(
            fitness.BALANCED, {"temporal_consistency": 1.0}, {"temporal_consistency": 0.0}
        )
        assert moved.temporal_consistency > fitness.BALANCED.temporal_consistency
        assert sum(map(abs, moved.to_list())) == pytest.approx(1.0)
