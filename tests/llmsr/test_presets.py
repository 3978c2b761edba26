"""Presets, compared with probabilities that are computed here."""

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
    """Returns an evaluated function with a text of a given length."""
    text = function.Text("x" * length)
    props = function.DefaultFunctionProps(text, candidate_evaluator=lambda _: evaluation.Evaluation(0.0))
    identity = candidate.Candidate(id or f"1.{score}.{length}", str(text))
    result = evaluation.Evaluation(score, scores or (score,))
    return function.DefaultFunction(props).with_evaluation(identity, result, score)


def measure_shares(preset: str, fns: Sequence[function.Function], *, parents: int = 1) -> dict[tuple[str, ...], float]:
    """Returns the share of each selection of parents, by their ids, worst first."""
    rng = Random(5)
    population = presets.get_preset(preset).make_population(parents)(0, rng, None)
    for member in fns:
        population.add_fn(member, ACCEPT)
    drawn = Counter(tuple(get_ids(population.select().parents)) for _ in range(DRAWS))
    return {key: count / DRAWS for key, count in drawn.items()}


def get_ids(fns: Sequence[function.Function]) -> list[str]:
    return [member.candidate.id for member in fns if member.candidate]


ACCEPT = gate.Decision("accept", "", "test")


def is_close(share: float, expected: float) -> bool:
    """Returns whether a share is within five standard errors."""
    return abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / DRAWS) + 1e-9


@pytest.mark.parametrize("preset", ["funsearch", "llmsr"])
class TestPublishedPresets:
    def test_softmax_temperature_falls(self, preset):
        # Three functions were registered, so T = 0.1 * (1 - 3 / 30,000) = 0.09999.
        a, b, c = (math.exp(score / 0.09999) for score in (0.0, 0.1, 0.2))
        result = measure_shares(preset, [fn(0.0, id="a"), fn(0.1, id="b"), fn(0.2, id="c")])
        assert is_close(result["a",], a / (a + b + c))
        assert is_close(result["b",], b / (a + b + c))
        assert is_close(result["c",], c / (a + b + c))

    def test_clusters_are_drawn_with_replacement(self, preset):
        # Two functions: T = 0.1 * (1 - 2 / 30,000). P(better) = 1 / (1 + exp(-0.1 / T)); twice the same by its square.
        better = 1 / (1 + math.exp(-0.1 / (0.1 * (1 - 2 / 30_000))))
        result = measure_shares(preset, [fn(0.0, id="a"), fn(0.1, id="b")], parents=2)
        assert is_close(result["b", "b"], better**2)
        assert is_close(result["a", "b"], 2 * better * (1 - better))
        assert is_close(result["a", "a"], (1 - better) ** 2)

    def test_length_softmax_uses_longest(self, preset):
        # Lengths 100 and 300: -(100 - 100) / 300 = 0 and -(300 - 100) / 300 = -2/3; softmax at temperature 1.
        short = 1 / (1 + math.exp(-2 / 3))
        result = measure_shares(preset, [fn(1.0, 100, id="short"), fn(1.0, 300, id="long")])
        assert is_close(result["short",], short)

    def test_islands_are_drawn_uniformly(self, preset):
        schedule = presets.get_preset(preset).make_schedule(Options(num_islands=4), seed=1)
        counts = Counter(schedule.choose_island(step) for step in range(1, 4001))
        assert all(abs(counts[island] - 1000) < 150 for island in range(4))
        assert [schedule.choose_island(step) for step in range(50)] == [
            schedule.choose_island(step) for step in range(50)
        ]

    def test_default_reset_period_is_four_hours(self, preset):
        assert presets.get_preset(preset).make_schedule(Options(), 0).reset_seconds == 4 * 60 * 60
        assert presets.get_preset(preset).make_schedule(Options(reset_period=60.0), 0).reset_seconds == 60

    def test_partial_scores_are_allowed(self, preset):
        assert presets.get_preset(preset).allow_partial


def test_funsearch_scores_last_input_and_others_mean():
    scores = (1.0, 2.0, 6.0)
    assert presets.get_preset("funsearch").reduce(scores) == 6.0
    assert {presets.get_preset(name).reduce(scores) for name in ("llmsr", "seed", "default")} == {3.0}


class TestSeed:
    def test_lengths_are_scaled_to_unit_range(self):
        # Lengths 300, 315, 330 become 0, 0.5, 1: weights 1, exp(-0.5), exp(-1).
        total = 1 + math.exp(-0.5) + math.exp(-1)
        result = measure_shares("seed", [fn(1.0, n, id=str(n)) for n in (300, 315, 330)])
        assert is_close(result["300",], 1 / total)
        assert is_close(result["315",], math.exp(-0.5) / total)
        assert is_close(result["330",], math.exp(-1) / total)

    def test_clusters_are_drawn_without_replacement(self):
        # With T = 0.1 * (1 - 3 / 30,000), the first by the softmax, the second by that of the other two.
        weight = {name: math.exp(score / 0.09999) for name, score in (("a", 0.0), ("b", 0.05), ("c", 0.1))}
        total = sum(weight.values())

        def pair_probability(name: str, other: str) -> float:
            first, second = weight[name] / total, weight[other] / total
            return first * second / (1 - first) + second * first / (1 - second)

        result = measure_shares("seed", [fn(0.0, id="a"), fn(0.05, id="b"), fn(0.1, id="c")], parents=2)
        assert set(result) == {("a", "b"), ("a", "c"), ("b", "c")}
        for first, second in result:
            assert is_close(result[first, second], pair_probability(first, second))

    def test_reset_islands_get_best_function(self):
        islands = make_islands([1.0, 4.0, 2.0, 3.0])
        resets = presets.get_preset("seed").reset_rule(islands, Random(0))
        assert [(reset.island, get_ids(reset.founders)) for reset in resets] == [(0, ["best 1"]), (2, ["best 1"])]

    def test_reset_period_is_thirty_minutes(self):
        assert presets.get_preset("seed").make_schedule(Options(), 0).reset_seconds == 30 * 60

    def test_equal_scores_share_cluster(self):
        population = presets.get_preset("seed").make_population(1)(0, Random(0), None)
        assert isinstance(population, cluster.NichedPopulation)
        for scores in ((1.0, 2.0), (2.0, 1.0), (1.0, 2.0)):
            population.add_fn(fn(1.5, scores=scores, id=f"{scores}{len(population.clusters)}"), ACCEPT)
        assert len(population.clusters) == 2
        assert fn(1.5, scores=(1.0, 2.0)).signature() == "(1.0, 2.0)"


class TestShortestFirstCluster(testing.ListableClusterSuite):
    def make(self) -> presets.ShortestFirstCluster:
        return presets.ShortestFirstCluster(Random(0))


class TestDefault:
    def test_shortest_function_is_selected(self):
        result = measure_shares("default", [fn(1.0, n, id=str(n)) for n in (330, 300, 315)])
        assert result == {("300",): 1.0}

    def test_rank_selection_ignores_scale_of_scores(self):
        # Three clusters: weights exp(-rank / max(1, 0.1 * 3)) = 1, e^-1, e^-2 from the best to the worst.
        total = 1 + math.exp(-1) + math.exp(-2)
        for scale in (1e-9, 1.0, 1e9):
            result = measure_shares("default", [fn(score * scale, id=str(score)) for score in (1.0, 2.0, 3.0)])
            assert is_close(result["3.0",], 1 / total)
            assert is_close(result["2.0",], math.exp(-1) / total)
            assert is_close(result["1.0",], math.exp(-2) / total)

    def test_reset_breaks_only_ties_at_random(self):
        islands = make_islands([1e-9, 2e-9, 3e-9, 4e-9])
        for seed in range(20):
            assert [reset.island for reset in presets.get_preset("default").reset_rule(islands, Random(seed))] == [0, 1]
        tied = make_islands([1.0, 1.0, 1.0, 1.0])
        reset_islands = {
            tuple(reset.island for reset in presets.get_preset("default").reset_rule(tied, Random(s)))
            for s in range(40)
        }
        assert len(reset_islands) > 3

    def test_reset_islands_start_from_survivors(self):
        islands = make_islands([1.0, 4.0, 2.0, 3.0])
        founders = {
            get_ids(reset.founders)[0]
            for seed in range(40)
            for reset in presets.get_preset("default").reset_rule(islands, Random(seed))
        }
        assert founders == {"best 1", "best 3"}

    def test_resets_count_evaluations(self):
        schedule = presets.get_preset("default").make_schedule(Options(num_islands=4), 0)
        assert (schedule.reset_every, schedule.uses_clock) == (200, False)
        schedule = presets.get_preset("default").make_schedule(Options(num_islands=4, reset_evaluations=30), 0)
        assert (schedule.reset_every, schedule.uses_clock) == (30, False)

    def test_reset_period_overrides_evaluations(self):
        schedule = presets.get_preset("default").make_schedule(Options(num_islands=4, reset_period=5.0), 0)
        assert (schedule.reset_every, schedule.reset_seconds) == (None, 5.0)


def test_funsearch_adds_noise_to_island_scores():
    # Noise of 1e-6 hides differences of 1e-9, so each island is in the worse half about half of the time.
    islands = make_islands([1e-9, 2e-9, 3e-9, 4e-9])
    counts = Counter(
        reset.island
        for seed in range(400)
        for reset in presets.get_preset("funsearch").reset_rule(islands, Random(seed))
    )
    assert all(150 < counts[island] < 250 for island in range(4))


def test_unknown_preset_is_rejected():
    with pytest.raises(errors.SetupError, match="Use one of default, funsearch, llmsr, seed"):
        presets.get_preset("funserach")


def make_islands(scores: Sequence[float]) -> list[archipelago.Island]:
    """Returns islands with one function each."""
    islands: list[archipelago.Island] = []
    for index, score in enumerate(scores):
        population = presets.get_preset("default").make_population(1)(index, Random(0), None)
        population.add_fn(fn(score, id=f"best {index}"), ACCEPT)
        islands.append(cluster.Island(index, 0, population, None, None))  # type: ignore[arg-type]  # it never proposes
    return islands
