"""Selectors: many draws compared with the published formulas, and data structures with plain lists."""

import itertools
import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import pytest
import scipy  # it imports `stats` when a test uses it
from hypothesis import given
from hypothesis import strategies as st

from atoll import cluster, testing
from atoll.cluster import selectors
from tests.repetitions import choose

DRAWS = choose(20_000, 40_000)
SCORES = [0.3, -0.1, 0.25, 0.0, 0.3]
ALL = range(len(SCORES))


class TestWeightSelector(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return cluster.WeightSelector(rng)


class TestWeightSelectorWithReplacement(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return cluster.WeightSelector(rng, lambda score, size: size, replace=True)


class TestSoftmaxSelector(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return cluster.SoftmaxSelector(rng)


class TestSoftmaxSelectorWithoutReplacement(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return cluster.SoftmaxSelector(rng, initial_temperature=0.5, replace=False)


class TestRankSelector(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return cluster.RankSelector(rng)


type Pairs = Mapping[tuple[int, int], float]


def softmax(scores: Sequence[float], temperature: float) -> list[float]:
    weights = [math.exp((score - max(scores)) / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def with_replacement(chances: Sequence[float]) -> Pairs:
    return {(i, j): chances[i] * chances[j] for i in range(len(chances)) for j in range(len(chances))}


def without_replacement(chances: Sequence[float]) -> Pairs:
    pairs = itertools.permutations(range(len(chances)), 2)
    return {(i, j): chances[i] * chances[j] / (1 - chances[i]) for i, j in pairs}


def check_counts(counts: Mapping[Any, int], expected: Mapping[Any, float]) -> None:
    """Checks counts by chi-square against expected probabilities or counts."""
    assert set(counts) <= set(expected)
    total, scale = sum(counts.values()), sum(expected.values())
    rare = [key for key in expected if total * expected[key] / scale < 5]
    common = [key for key in expected if key not in rare]
    observed = [counts.get(key, 0) for key in common]
    requested = [total * expected[key] / scale for key in common]
    if rare:  # too rare for single tests, so they count together
        observed.append(sum(counts.get(key, 0) for key in rare))
        requested.append(sum(total * expected[key] / scale for key in rare))
    assert scipy.stats.chisquare(observed, requested).pvalue > 1e-4


def count_draws(selector: cluster.Selector, registered: int, k: int = 2) -> Counter[tuple[int, ...]]:
    return Counter(tuple(selector.select(k, registered)) for _ in range(DRAWS))


def fill_selector[T: cluster.Selector](selector: T, scores: Sequence[float] = SCORES) -> T:
    for index, score in enumerate(scores):
        selector.set(index, score, index + 1)
    return selector


def test_temperature_falls_over_each_period() -> None:
    selector = cluster.SoftmaxSelector(Random(0), initial_temperature=0.1, period=30_000)
    expected = {0: 0.1, 15_000: 0.05, 29_999: 0.1 / 30_000, 30_000: 0.1, 45_000: 0.05}
    assert {item: selector.get_temperature(item) for item in expected} == pytest.approx(expected)


@pytest.mark.parametrize("registered", [0, 50, 80, 1030])
def test_softmax_pairs_with_replacement_match_funsearch(registered: int) -> None:
    temperature = 0.2 * (1 - registered % 100 / 100)
    selector = fill_selector(cluster.SoftmaxSelector(Random(registered), initial_temperature=0.2, period=100))
    check_counts(count_draws(selector, registered), with_replacement(softmax(SCORES, temperature)))


@pytest.mark.parametrize("registered", [0, 50, 80])
def test_softmax_pairs_without_replacement_match_seed(registered: int) -> None:
    temperature = 0.2 * (1 - registered % 100 / 100)
    selector = fill_selector(
        cluster.SoftmaxSelector(Random(registered), initial_temperature=0.2, period=100, replace=False)
    )
    check_counts(count_draws(selector, registered), without_replacement(softmax(SCORES, temperature)))


@pytest.mark.parametrize("replace", [True, False])
def test_draws_are_exact_after_sum_tree_is_stale(replace: bool) -> None:
    """Every pair is drawn with a tree of another temperature, before and during its rebuild."""
    rng, counts = Random(7), Counter[tuple[int, ...]]()
    selector = cluster.SoftmaxSelector(rng, initial_temperature=0.4, period=100, replace=replace)
    for draw in range(DRAWS):
        selector.select(0, 100 + draw % 5)  # high again, so the tree is built for this temperature
        if draw % 10 == 0:
            fill_selector(selector)
        counts[tuple(selector.select(2, 75))] += 1
    chances = softmax(SCORES, 0.1)
    check_counts(counts, with_replacement(chances) if replace else without_replacement(chances))


def test_draws_are_exact_while_temperature_falls() -> None:
    rng, period = Random(8), 1000
    selector = fill_selector(cluster.SoftmaxSelector(rng, initial_temperature=0.3, period=period))
    counts = Counter[tuple[int, ...]]()
    chances = [softmax(SCORES, 0.3 * (1 - registered / period)) for registered in range(period)]
    for draw in range(DRAWS):
        counts[tuple(selector.select(1, draw))] += 1
    check_counts(counts, {(index,): sum(chance[index] for chance in chances) for index in ALL})


def test_draws_are_exact_after_scores_change() -> None:
    selector = fill_selector(
        cluster.SoftmaxSelector(Random(9), initial_temperature=0.2, period=100), [-500.0, 40.0, -3.0, 0.0, 1.0]
    )
    selector.select(2, 30)
    check_counts(count_draws(fill_selector(selector), 40), with_replacement(softmax(SCORES, 0.12)))


@pytest.mark.parametrize("shift", [-1e4, 60.0])
def test_softmax_ignores_score_offset(shift: float) -> None:
    selector = fill_selector(
        cluster.SoftmaxSelector(Random(10), initial_temperature=0.2, period=100), [score + shift for score in SCORES]
    )
    check_counts(count_draws(selector, 20), with_replacement(softmax(SCORES, 0.16)))


def test_softmax_never_draws_zero_probability() -> None:
    """The seed count_draws min(k, clusters with a probability above 0)."""
    selector = fill_selector(cluster.SoftmaxSelector(Random(0), replace=False), [0.0, -1e6, 0.0])
    assert {tuple(sorted(selector.select(3, 1))) for _ in range(100)} == {(0, 2)}


def test_weights_without_replacement_are_drawn_sequentially() -> None:
    selector = fill_selector(cluster.WeightSelector(Random(11), lambda score, size: size))
    check_counts(count_draws(selector, 0), without_replacement([size / 15 for size in (1, 2, 3, 4, 5)]))


def test_weights_with_replacement_are_drawn_independently() -> None:
    selector = fill_selector(cluster.WeightSelector(Random(12), lambda score, size: score + 0.2, replace=True))
    total = sum(score + 0.2 for score in SCORES)
    check_counts(count_draws(selector, 0), with_replacement([(score + 0.2) / total for score in SCORES]))


def test_weights_of_zero_give_uniform_pairs() -> None:
    check_counts(count_draws(fill_selector(cluster.WeightSelector(Random(13))), 0), without_replacement([0.2] * 5))


def test_weight_selector_never_draws_weight_zero() -> None:
    selector = fill_selector(cluster.WeightSelector(Random(0), lambda score, size: size % 2))
    assert {tuple(sorted(selector.select(5, 0))) for _ in range(100)} == {(0, 2, 4)}


@pytest.mark.parametrize("spread", [0.1, 0.5, 2.0])
def test_ranks_are_drawn_with_decreasing_probability(spread: float) -> None:
    scores = [1e9, -1e9, 0.0, 1e-9, 1e9]
    ranked = [0, 4, 3, 2, 1]  # the earlier of equal scores ranks higher
    scale = max(1.0, spread * 5)
    expected = {}
    for one, other in itertools.permutations(range(5), 2):
        first = math.exp(-one / scale) / sum(math.exp(-rank / scale) for rank in range(5))
        among_those_left = other - (other > one)
        second = math.exp(-among_those_left / scale) / sum(math.exp(-rank / scale) for rank in range(4))
        expected[ranked[one], ranked[other]] = first * second
    check_counts(count_draws(fill_selector(cluster.RankSelector(Random(14), spread), scores), 0), expected)


def test_ranks_are_drawn_without_replacement() -> None:
    selector = fill_selector(cluster.RankSelector(Random(0)))
    assert all(sorted(selector.select(9, 0)) == list(ALL) for _ in range(100))


def test_ranks_follow_changed_scores() -> None:
    selector = fill_selector(cluster.RankSelector(Random(15), 0.01), [1.0, 2.0, 3.0])
    selector.set(0, 4.0, 1)
    selector.set(2, 0.0, 1)
    weights = [math.exp(-rank) for rank in range(3)]
    check_counts(count_draws(selector, 0, k=1), {(0,): weights[0], (1,): weights[1], (2,): weights[2]})


weights = st.floats(0.0, 1e6, allow_subnormal=False)


@given(st.lists(st.tuples(st.integers(0, 20), weights), max_size=40), st.integers())
def test_sum_tree_matches_list_of_weights(changes: list[tuple[int, float]], seed: int) -> None:
    tree, plain = selectors.SumTree(), [0.0] * 21
    for index, weight in changes:
        tree.set(index, weight)
        plain[index] = weight
        assert tree.total == pytest.approx(sum(plain))
    last = max((index for index, _ in changes), default=0)
    assert [tree[index] for index in range(last + 1)] == plain[: last + 1]
    if sum(plain) > 0.0:
        assert all(plain[tree.draw(Random(seed + turn))] > 0.0 for turn in range(20))


@given(st.lists(weights, min_size=1, max_size=40).filter(lambda item: sum(item) > 0), st.floats(0, 1, exclude_max=True))
def test_sum_tree_draws_match_cumulative_sum(plain: list[float], u: float) -> None:
    class Fixed(Random):
        def random(self) -> float:
            return u

    tree = selectors.SumTree()
    tree.fill(plain)
    drawn = tree.draw(Fixed())
    below = sum(plain[:drawn])
    margin = 1e-9 * sum(plain)
    assert below - margin <= u * sum(plain) <= below + plain[drawn] + margin


@given(st.lists(weights, max_size=40), st.lists(st.tuples(st.integers(0, 60), weights), max_size=10))
def test_sum_tree_fill_matches_single_updates(plain: list[float], changes: list[tuple[int, float]]) -> None:
    one, other = selectors.SumTree(), selectors.SumTree()
    one.fill(plain)
    for index, weight in enumerate(plain):
        other.set(index, weight)
    for index, weight in changes:
        one.set(index, weight)
        other.set(index, weight)
    assert one.total == pytest.approx(other.total)


def test_sum_tree_restores_total_after_weight_reset() -> None:
    tree = selectors.SumTree()
    tree.fill([1e-12, 1e9, 3e-12])
    tree.set(1, 0.0)
    assert tree.total == 4e-12
    tree.set(1, 1e9)
    tree.set(1, 0.0)
    assert tree.total == 4e-12


levels = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 1.0])


@given(st.lists(st.tuples(st.integers(0, 7), levels), max_size=40), st.lists(levels, max_size=5))
def test_ranked_clusters_match_sorted_list(changes: list[tuple[int, float]], bounds: list[float]) -> None:
    result, plain = selectors.RankedClusters(), list[float]()
    result.MAX_BUCKET_SIZE = 2  # so that buckets split
    for index, score in changes:
        index = min(index, len(plain))
        result.set(index, score)
        plain[index : index + 1] = [max(score, -sys.float_info.max)]
    expected = sorted(range(len(plain)), key=lambda index: (-plain[index], index))
    assert [result.get_at_rank(rank) for rank in range(len(plain))] == [(index, plain[index]) for index in expected]
    falling = sorted(bounds, reverse=True)
    assert list(result.count_at_or_above(falling)) == [sum(score >= bound for score in plain) for bound in falling]
    with pytest.raises(IndexError):
        result.get_at_rank(len(plain))


def test_ranked_clusters_match_sorted_list_of_thousands() -> None:
    rng, result, plain = Random(0), selectors.RankedClusters(), list[float]()
    for _ in range(6000):
        if plain and rng.random() < 0.3:
            moved = rng.randrange(len(plain))
            plain[moved] = float(rng.randrange(50))
            result.set(moved, plain[moved])
        plain.append(float(rng.randrange(50)))
        result.set(len(plain) - 1, plain[-1])
    expected = sorted(range(len(plain)), key=lambda index: (-plain[index], index))
    assert [result.get_at_rank(rank)[0] for rank in range(len(plain))] == expected
    for index in range(0, 6000, 7):
        result.remove(index)
        result.insert(index)
    assert [result.get_at_rank(rank)[0] for rank in range(len(plain))] == expected


# Draws of one seed, three at 0, 30, 60, 90, 99, 130, 140 and 150 functions.
DRAWN = {
    "softmax": "25 22 4, 25 16 9, 17 28 25, 25 25 25, 25 25 25, 16 11 20, 25 17 17, 10 25 25",
    "softmax without replacement": "25 10 27, 39 25 5, 25 28 11, 25 10 17, 25 10 17, 11 20 25, 17 25 28, 25 34 39",
    "ranks": "10 21 27, 17 35 28, 39 4 25, 25 21 28, 33 25 28, 20 17 14, 30 25 10, 35 15 34",
    "weights": "6 34 29, 11 22 19, 26 32 4, 1 34 17, 30 0 18, 29 10 38, 35 1 2, 22 38 15",
    "uniform with replacement": "5 33 30, 10 19 17, 26 31 3, 1 33 17, 30 0 17, 28 9 37, 36 1 1, 21 37 15",
}


def seeded(kind: str) -> cluster.Selector:
    rng = Random(1)
    match kind:
        case "softmax" | "softmax without replacement":
            return cluster.SoftmaxSelector(rng, 0.8, 100, replace=kind == "softmax")
        case "ranks":
            return cluster.RankSelector(rng, 0.2)
        case "weights":
            return cluster.WeightSelector(rng, lambda score, size: size + max(0.0, score))
        case _:
            return cluster.WeightSelector(rng, replace=True)


@pytest.mark.parametrize("kind", DRAWN)
def test_selector_draws_are_stable_across_versions(kind: str) -> None:
    selector = seeded(kind)
    for index in range(40):
        selector.set(index, index * 7 % 40 / 10 - 1.5, 1 + index % 3)
    for index in range(0, 40, 5):
        selector.set(index, index * 3 % 40 / 12, 2)
    drawn = [selector.select(3, registered) for registered in (0, 30, 60, 90, 99, 130, 140, 150)]
    assert ", ".join(" ".join(map(str, item)) for item in drawn) == DRAWN[kind]


def test_rank_draws_of_few_clusters_are_stable_across_versions() -> None:
    selector = fill_selector(cluster.RankSelector(Random(3)))
    drawn = [selector.select(5, 0) for _ in range(6)]
    assert ["".join(map(str, item)) for item in drawn] == ["04231", "04321", "10243", "04321", "40321", "02431"]
    selector.clear()
    assert selector.select(2, 0) == []
    selector.set(0, 1.0, 1)
    assert selector.select(2, 0) == [0]


def test_draw_on_boundary_selects_second_weight() -> None:
    class Half(Random):
        def random(self) -> float:
            return 0.5

    tree = selectors.SumTree()
    tree.fill([1.0, 1.0])
    assert tree.draw(Half()) == 1


def test_draw_rounded_past_end_selects_last_weight() -> None:
    class Nearly(Random):
        def random(self) -> float:
            return 0.9

    tree = selectors.SumTree()
    tree.fill([5e-324, 0.0])  # 0.9 times the smallest number rounds to that number
    assert tree.draw(Nearly()) == 0
