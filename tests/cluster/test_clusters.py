"""What each cluster keeps and how often it offers whom, against the published formulas."""

import math
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from atoll import cluster, errors, function, profiler, testing

DRAWS = 100_000


class TestDefaultCluster(testing.ListableClusterSuite):
    def make(self) -> cluster.DefaultCluster:
        return cluster.DefaultCluster(Random(0))


class TestDefaultClusterByRange(testing.ListableClusterSuite):
    def make(self) -> cluster.DefaultCluster:
        return cluster.DefaultCluster(Random(0), by_range=True)


class TestEliteCluster(testing.ListableClusterSuite):
    def make(self) -> cluster.EliteCluster:
        return cluster.EliteCluster(Random(0))


class TestEliteClusterWithTies(testing.ListableClusterSuite):
    def make(self) -> cluster.EliteCluster:
        return cluster.EliteCluster(Random(0), ties=True)


class TestEliteClusterByLength(testing.ListableClusterSuite):
    def make(self) -> cluster.EliteCluster:
        return cluster.EliteCluster(Random(0), value=self.value)

    def value(self, fn: function.Function) -> float:
        return function.get_fitness(fn) - len(str(fn.skeleton()))


class TestPoolCluster(testing.ListableClusterSuite):
    def make(self) -> cluster.TournamentCluster:
        return cluster.TournamentCluster(Random(0), limit=5, tournament_size=3)


class TestPoolClusterOfOne(testing.ListableClusterSuite):
    def make(self) -> cluster.TournamentCluster:
        return cluster.TournamentCluster(Random(0), limit=1, tournament_size=1)


def check_frequencies(clustered: cluster.Cluster, fns: Sequence[function.Function], weights: Sequence[float]) -> None:
    """Demands that functions are offered in proportion to their weights, by chi-square."""
    counts = Counter(id(clustered.select_fn()) for _ in range(DRAWS))
    expected = [DRAWS * weight / sum(weights) for weight in weights]
    assert stats.chisquare([counts[id(fn)] for fn in fns], expected).pvalue > 1e-4


LENGTHS = [[300, 305, 310, 330], [1, 2, 10, 100, 1000], [50, 50, 51, 90, 90, 90], [7, 7, 7]]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_shorter_ones_are_offered_more_often_as_in_funsearch(lengths: list[int]) -> None:
    fns = [testing.make_evaluated_function(1.0, "x" * length) for length in lengths]
    clustered = cluster.DefaultCluster(Random(1))
    for fn in fns:
        clustered.add_fn(fn)
    logits = [-(length - min(lengths)) / (max(lengths) + 1e-6) for length in lengths]
    check_frequencies(clustered, fns, [math.exp(each) for each in logits])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_by_range_lengths_count_from_0_to_1_as_the_seed_says(lengths: list[int]) -> None:
    fns = [testing.make_evaluated_function(1.0, "x" * length) for length in lengths]
    clustered = cluster.DefaultCluster(Random(2), by_range=True)
    for fn in fns:
        clustered.add_fn(fn)
    spread = max(lengths) - min(lengths)
    scaled = [(length - min(lengths)) / spread if spread else 0.0 for length in lengths]
    check_frequencies(clustered, fns, [math.exp(-each) for each in scaled])


def test_dividing_by_the_longest_hardly_tells_lengths_of_300_and_330_apart() -> None:
    fns = [testing.make_evaluated_function(1.0, "x" * 300), testing.make_evaluated_function(1.0, "x" * 330)]
    check_frequencies(filled(cluster.DefaultCluster(Random(3)), fns), fns, [math.exp(30 / 330), 1.0])


@pytest.mark.parametrize("tournament", [1, 2, 5])
def test_a_pool_offers_the_winner_of_a_tournament(tournament: int) -> None:
    fns = [testing.make_evaluated_function(float(score), id=f"{score}.0") for score in range(6)]
    clustered = filled(cluster.TournamentCluster(Random(4), limit=10, tournament_size=tournament), fns)
    # The best of k draws out of n has a rank of at most r with probability (r / n) ** k.
    weights = [((rank + 1) / 6) ** tournament - (rank / 6) ** tournament for rank in range(6)]
    check_frequencies(clustered, fns, weights)


def test_elites_that_tie_are_offered_alike() -> None:
    fns = [testing.make_evaluated_function(1.0, id=f"{step}.0") for step in range(5)]
    check_frequencies(filled(cluster.EliteCluster(Random(5), ties=True), fns), fns, [1.0] * 5)


def filled[T: cluster.ListableCluster](clustered: T, fns: Sequence[function.Function]) -> T:
    for fn in fns:
        clustered.add_fn(fn)
    return clustered


functions = st.lists(st.integers(0, 6), max_size=30).map(
    lambda scores: [testing.make_evaluated_function(score, id=f"{step}.0") for step, score in enumerate(scores)]
)


def same(found: Sequence[function.Function], expected: Sequence[function.Function]) -> bool:
    return [id(fn) for fn in found] == [id(fn) for fn in expected]


@given(functions)
def test_a_default_cluster_keeps_all(fns: list[function.Function]) -> None:
    assert same(filled(cluster.DefaultCluster(Random(0)), fns).members(), fns)


@given(functions)
def test_an_elite_cluster_keeps_the_first_of_the_best(fns: list[function.Function]) -> None:
    best = [fn for fn in fns if fn.score() == max(map(function.get_fitness, fns))]
    assert same(filled(cluster.EliteCluster(Random(0)), fns).members(), best[:1])


@given(functions)
def test_with_ties_an_elite_cluster_keeps_all_of_the_best(fns: list[function.Function]) -> None:
    best = [fn for fn in fns if fn.score() == max(map(function.get_fitness, fns))]
    assert same(filled(cluster.EliteCluster(Random(0), ties=True), fns).members(), best)


@given(functions, st.integers(1, 6))
def test_a_pool_keeps_the_best_and_of_equals_the_earlier(fns: list[function.Function], limit: int) -> None:
    ranked = sorted(fns, key=lambda fn: -function.get_fitness(fn))  # sorting is stable
    assert same(filled(cluster.TournamentCluster(Random(0), limit=limit), fns).members(), ranked[:limit])


@given(functions, st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_pool_keeps_a_text_once_and_takes_it_again_after_it_was_dropped(
    fns: list[function.Function], limit: int, rng: Random
) -> None:
    pool, kept = cluster.TournamentCluster(Random(0), limit=limit), list[function.Function]()
    for fn in [*fns, *rng.sample(fns, len(fns))]:
        pool.add_fn(fn.clone())
        if str(fn.skeleton()) not in [str(each.skeleton()) for each in kept]:
            kept = sorted([*kept, fn], key=lambda each: -function.get_fitness(each))[:limit]
    assert [str(fn.skeleton()) for fn in pool.members()] == [str(fn.skeleton()) for fn in kept]


# What one seed offers of texts of 36, 49, 64, ... 196 letters, by length.
OFFERED = {
    "default": "64 169 121 81 121 49 64 49 121 81 81 144 100 144 81 144 49 144 121 100 36 81 36 64",
    "by range": "64 169 121 81 121 49 64 49 121 81 144 144 81 144 49 144 121 100 36 81 36 64 36 49",
    "ties": "49 49 49 169 49 100 100 169 169 100 49 100 49 100 100 49 169 100 169 100 100 169 100 169",
    "pool": "49 49 169 100 100 169 49 169 36 36 100 36 100 49 100 100 36 169 169 49 169 169 81 100",
}


@pytest.mark.parametrize("kind", OFFERED)
def test_a_seed_offers_today_what_it_offered_when_a_run_was_begun(kind: str) -> None:
    rng = Random(2)
    every: dict[str, cluster.ListableCluster] = {
        "default": cluster.DefaultCluster(rng),
        "by range": cluster.DefaultCluster(rng, by_range=True),
        "ties": cluster.EliteCluster(rng, ties=True),
        "pool": cluster.TournamentCluster(rng, limit=6),
    }
    kept = every[kind]
    for root in (3, 1, 2, 9, 8, 4, 5, 7, 6):
        kept.add_fn(testing.make_evaluated_function(float(root % 3), "x" * (root + 5) ** 2))
    assert " ".join(str(len(str(kept.select_fn().skeleton()))) for _ in range(24)) == OFFERED[kind]
    assert len(str(kept.best_fn().skeleton())) == 49


def test_an_empty_cluster_says_what_to_do() -> None:
    for kept in (
        cluster.DefaultCluster(Random(0)),
        cluster.EliteCluster(Random(0)),
        cluster.TournamentCluster(Random(0)),
    ):
        for ask in (kept.select_fn, kept.best_fn):
            with pytest.raises(errors.NotFound) as refused:
                ask()
            assert str(refused.value) == "The cluster is empty: add a function first."


def test_what_is_added_and_offered_is_told() -> None:
    heard = list[cluster.ClusterEvent]()
    kept = cluster.DefaultCluster(Random(0))
    fns = [testing.make_evaluated_function(1.0, "one"), testing.make_evaluated_function(2.0, "other")]
    kept.add_fn(fns[0])
    remove = kept.use_profiler(heard.append)
    kept.add_fn(fns[1])
    offered = kept.select_fn()
    remove()
    kept.select_fn()
    assert heard == [cluster.OnFnAdded("on_fn_added", fns[1]), cluster.OnFnSelected("on_fn_selected", (fns, offered))]


def test_a_value_that_raises_or_is_no_number_is_worth_least() -> None:
    def value(fn: function.Function) -> float:
        return {"none": math.nan, "some": -1e300}[str(fn.skeleton())]

    for ties in (False, True):
        kept = cluster.EliteCluster(Random(0), value=value, ties=ties)
        for text in ("unknown", "none", "some", "none", "unknown"):
            kept.add_fn(testing.make_evaluated_function(1.0, text))
        assert [str(fn.skeleton()) for fn in kept.members()] == ["some"]
    both = cluster.EliteCluster(Random(0), value=value, ties=True)
    for text in ("unknown", "none"):
        both.add_fn(testing.make_evaluated_function(1.0, text))
    assert [str(fn.skeleton()) for fn in both.members()] == ["unknown", "none"]


@pytest.mark.parametrize("kind", ["default", "elite", "pool"])
def test_clusters_tell_who_was_given_to_them(kind: str) -> None:
    heard, profilers = list[cluster.ClusterEvent](), profiler.Profilers[cluster.ClusterEvent]()
    profilers.use(heard.append)
    every: dict[str, cluster.ListableCluster] = {
        "default": cluster.DefaultCluster(Random(0), profilers),
        "elite": cluster.EliteCluster(Random(0), profilers),
        "pool": cluster.TournamentCluster(Random(0), profilers),
    }
    kept, fn = every[kind], testing.make_evaluated_function(1.0)
    kept.add_fn(fn)
    assert kept.select_fn() is fn
    assert heard == [cluster.OnFnAdded("on_fn_added", fn), cluster.OnFnSelected("on_fn_selected", ([fn], fn))]


def test_a_pool_keeps_a_hundred_by_default_and_forgets_the_texts_of_those_it_drops() -> None:
    kept = cluster.TournamentCluster(Random(0))
    for number in range(102):
        kept.add_fn(testing.make_evaluated_function(float(number), f"text {number}"))
    assert [fn.score() for fn in kept.members()] == [float(number) for number in range(101, 1, -1)]
    kept.add_fn(testing.make_evaluated_function(1000.0, "text 0"))
    kept.add_fn(testing.make_evaluated_function(1001.0, "text 50"))
    assert str(kept.best_fn().skeleton()) == "text 0"
    assert len(kept.members()) == 100
