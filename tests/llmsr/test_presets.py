"""Each preset's formulas, beside probabilities that are worked out here step by step."""

import math
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from atoll import archipelago, candidate, cluster, errors, evaluation, function, gate, testing
from atoll.llmsr import presets
from atoll.llmsr.config import Options

DRAWS = 20_000


def fn(score: float, length: int = 10, *, scores: tuple[float, ...] = (), id: str = "") -> function.Function:
    """Returns a judged function of a length."""
    text = function.Text("x" * length)
    made = function.DefaultFunction(
        function.DefaultFunctionProps(text, candidate_evaluator=lambda _: evaluation.Evaluation(0.0))
    )
    born = candidate.Candidate(id or f"1.{score}.{length}", str(text))
    return made.with_evaluation(born, evaluation.Evaluation(score, scores or (score,)), score)


def shares(preset: str, fns: Sequence[function.Function], *, parents: int = 1) -> dict[tuple[str, ...], float]:
    """Returns how often each selection of parents was drawn, worst first, by their ids."""
    rng = Random(5)
    pool = presets.get_preset(preset).make_population(parents)(0, rng, None)
    for each in fns:
        pool.add_fn(each, ACCEPT)
    drawn = Counter(tuple(ids(pool.select().parents)) for _ in range(DRAWS))
    return {key: count / DRAWS for key, count in drawn.items()}


def ids(fns: Sequence[function.Function]) -> list[str]:
    return [each.candidate.id for each in fns if each.candidate]


ACCEPT = gate.Decision("accept", "", "test")


def close(share: float, expected: float) -> bool:
    """Says whether a share is within five standard errors."""
    return abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / DRAWS) + 1e-9


@pytest.mark.parametrize("preset", ["funsearch", "llmsr"])
class TestPublishedFormulas:
    def test_a_cluster_is_drawn_by_the_softmax_of_its_score_over_a_temperature_that_falls(self, preset):
        # Three functions were registered, so T = 0.1 * (1 - 3 / 30,000) = 0.09999.
        a, b, c = (math.exp(score / 0.09999) for score in (0.0, 0.1, 0.2))
        found = shares(preset, [fn(0.0, id="a"), fn(0.1, id="b"), fn(0.2, id="c")])
        assert close(found["a",], a / (a + b + c))
        assert close(found["b",], b / (a + b + c))
        assert close(found["c",], c / (a + b + c))

    def test_two_clusters_are_drawn_with_replacement_so_that_one_may_come_twice(self, preset):
        # Two functions: T = 0.1 * (1 - 2 / 30,000). P(better) = 1 / (1 + exp(-0.1 / T)); twice the same by its square.
        better = 1 / (1 + math.exp(-0.1 / (0.1 * (1 - 2 / 30_000))))
        found = shares(preset, [fn(0.0, id="a"), fn(0.1, id="b")], parents=2)
        assert close(found["b", "b"], better**2)
        assert close(found["a", "b"], 2 * better * (1 - better))
        assert close(found["a", "a"], (1 - better) ** 2)

    def test_in_a_cluster_lengths_are_measured_by_the_longest(self, preset):
        # Lengths 100 and 300: -(100 - 100) / 300 = 0 and -(300 - 100) / 300 = -2/3; softmax at temperature 1.
        short = 1 / (1 + math.exp(-2 / 3))
        found = shares(preset, [fn(1.0, 100, id="short"), fn(1.0, 300, id="long")])
        assert close(found["short",], short)

    def test_each_step_belongs_to_an_island_drawn_uniformly(self, preset):
        schedule = presets.get_preset(preset).make_schedule(Options(num_islands=4), seed=1)
        turns = Counter(schedule.choose_island(step) for step in range(1, 4001))
        assert all(abs(turns[island] - 1000) < 150 for island in range(4))
        assert [schedule.choose_island(step) for step in range(50)] == [
            schedule.choose_island(step) for step in range(50)
        ]

    def test_islands_are_reset_every_four_hours_unless_told_otherwise(self, preset):
        assert presets.get_preset(preset).make_schedule(Options(), 0).reset_seconds == 4 * 60 * 60
        assert presets.get_preset(preset).make_schedule(Options(reset_period=60.0), 0).reset_seconds == 60

    def test_a_function_counts_if_one_input_has_a_score(self, preset):
        assert presets.get_preset(preset).allow_partial


def test_funsearch_takes_the_last_input_and_the_others_take_the_mean():
    scores = (1.0, 2.0, 6.0)
    assert presets.get_preset("funsearch").reduce(scores) == 6.0
    assert {presets.get_preset(name).reduce(scores) for name in ("llmsr", "seed", "default")} == {3.0}


class TestSeed:
    def test_lengths_are_scaled_to_0_and_1(self):
        # Lengths 300, 315, 330 become 0, 0.5, 1: weights 1, exp(-0.5), exp(-1).
        total = 1 + math.exp(-0.5) + math.exp(-1)
        found = shares("seed", [fn(1.0, n, id=str(n)) for n in (300, 315, 330)])
        assert close(found["300",], 1 / total)
        assert close(found["315",], math.exp(-0.5) / total)
        assert close(found["330",], math.exp(-1) / total)

    def test_a_cluster_is_drawn_by_the_softmax_and_never_twice(self):
        # With T = 0.1 * (1 - 3 / 30,000), the first by the softmax, the second by that of the other two.
        weight = {name: math.exp(score / 0.09999) for name, score in (("a", 0.0), ("b", 0.05), ("c", 0.1))}
        total = sum(weight.values())

        def pair(one: str, other: str) -> float:
            first, second = weight[one] / total, weight[other] / total
            return first * second / (1 - first) + second * first / (1 - second)

        found = shares("seed", [fn(0.0, id="a"), fn(0.05, id="b"), fn(0.1, id="c")], parents=2)
        assert set(found) == {("a", "b"), ("a", "c"), ("b", "c")}
        for one, other in found:
            assert close(found[one, other], pair(one, other))

    def test_every_island_that_is_reset_gets_the_best_function_of_all(self):
        islands = ring([1.0, 4.0, 2.0, 3.0])
        found = presets.get_preset("seed").reset_rule(islands, Random(0))
        assert [(each.island, ids(each.founders)) for each in found] == [(0, ["best 1"]), (2, ["best 1"])]

    def test_islands_are_reset_every_thirty_minutes(self):
        assert presets.get_preset("seed").make_schedule(Options(), 0).reset_seconds == 30 * 60

    def test_functions_share_a_cluster_when_their_scores_are_written_alike(self):
        pool = presets.get_preset("seed").make_population(1)(0, Random(0), None)
        assert isinstance(pool, cluster.NichedPopulation)
        for scores in ((1.0, 2.0), (2.0, 1.0), (1.0, 2.0)):
            pool.add_fn(fn(1.5, scores=scores, id=f"{scores}{len(pool.clusters)}"), ACCEPT)
        assert len(pool.clusters) == 2
        assert fn(1.5, scores=(1.0, 2.0)).signature() == "(1.0, 2.0)"


class TestShortest(testing.ListableClusterSuite):
    def make(self) -> presets.ShortestFirstCluster:
        return presets.ShortestFirstCluster(Random(0))


class TestDefault:
    def test_of_functions_with_the_same_scores_the_shortest_is_the_parent(self):
        found = shares("default", [fn(1.0, n, id=str(n)) for n in (330, 300, 315)])
        assert found == {("300",): 1.0}

    def test_a_cluster_is_drawn_by_its_rank_whatever_the_scale_of_the_scores(self):
        # Three clusters: weights exp(-rank / max(1, 0.1 * 3)) = 1, e^-1, e^-2 from the best to the worst.
        total = 1 + math.exp(-1) + math.exp(-2)
        for scale in (1e-9, 1.0, 1e9):
            found = shares("default", [fn(score * scale, id=str(score)) for score in (1.0, 2.0, 3.0)])
            assert close(found["3.0",], 1 / total)
            assert close(found["2.0",], math.exp(-1) / total)
            assert close(found["1.0",], math.exp(-2) / total)

    def test_small_differences_count_when_islands_are_reset_and_only_ties_are_broken_by_dice(self):
        islands = ring([1e-9, 2e-9, 3e-9, 4e-9])
        for seed in range(20):
            assert [each.island for each in presets.get_preset("default").reset_rule(islands, Random(seed))] == [0, 1]
        tied = ring([1.0, 1.0, 1.0, 1.0])
        doomed = {
            tuple(each.island for each in presets.get_preset("default").reset_rule(tied, Random(s))) for s in range(40)
        }
        assert len(doomed) > 3

    def test_founders_come_from_the_kept_islands(self):
        islands = ring([1.0, 4.0, 2.0, 3.0])
        founders = {
            ids(each.founders)[0]
            for seed in range(40)
            for each in presets.get_preset("default").reset_rule(islands, Random(seed))
        }
        assert founders == {"best 1", "best 3"}

    def test_resets_are_counted_in_evaluations_and_no_clock_is_used(self):
        schedule = presets.get_preset("default").make_schedule(Options(num_islands=4), 0)
        assert (schedule.reset_every, schedule.uses_clock) == (200, False)
        schedule = presets.get_preset("default").make_schedule(Options(num_islands=4, reset_evaluations=30), 0)
        assert (schedule.reset_every, schedule.uses_clock) == (30, False)

    def test_a_period_that_somebody_asks_for_rules_instead(self):
        schedule = presets.get_preset("default").make_schedule(Options(num_islands=4, reset_period=5.0), 0)
        assert (schedule.reset_every, schedule.reset_seconds) == (None, 5.0)


def test_funsearch_adds_noise_of_a_millionth_before_it_ranks_islands():
    # Scores 1e-9 apart drown in noise of 1e-6: each island is among the worse half about half of the time.
    islands = ring([1e-9, 2e-9, 3e-9, 4e-9])
    doomed = Counter(
        each.island for seed in range(400) for each in presets.get_preset("funsearch").reset_rule(islands, Random(seed))
    )
    assert all(150 < doomed[island] < 250 for island in range(4))


def test_an_unknown_preset_is_named_with_those_there_are():
    with pytest.raises(errors.SetupError, match="choose one of default, funsearch, llmsr, seed"):
        presets.get_preset("funserach")


def ring(scores: Sequence[float]) -> list[archipelago.Island]:
    """Returns islands with one function each."""
    islands: list[archipelago.Island] = []
    for index, score in enumerate(scores):
        pool = presets.get_preset("default").make_population(1)(index, Random(0), None)
        pool.add_fn(fn(score, id=f"best {index}"), ACCEPT)
        islands.append(cluster.Island(index, 0, pool, None, None))  # type: ignore[arg-type]  # never stepped
    return islands
