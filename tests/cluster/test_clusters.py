"""Clusters: retained functions and selection frequencies, compared with the published formulas."""

import math
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
import scipy  # it imports `stats` when a test uses it
from hypothesis import given
from hypothesis import strategies as st

from atoll import cluster, errors, function, profiler, testing
from tests.repetitions import choose

DRAWS = choose(40_000, 100_000)


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


class TestTournamentCluster(testing.ListableClusterSuite):
    def make(self) -> cluster.TournamentCluster:
        return cluster.TournamentCluster(Random(0), limit=5, tournament_size=3)


class TestTournamentClusterOfOne(testing.ListableClusterSuite):
    def make(self) -> cluster.TournamentCluster:
        return cluster.TournamentCluster(Random(0), limit=1, tournament_size=1)


def check_frequencies(clustered: cluster.Cluster, fns: Sequence[function.Function], weights: Sequence[float]) -> None:
    """Checks by chi-square that functions are selected in proportion to their weights."""
    counts = Counter(id(clustered.select_fn()) for _ in range(DRAWS))
    expected = [DRAWS * weight / sum(weights) for weight in weights]
    assert scipy.stats.chisquare([counts[id(fn)] for fn in fns], expected).pvalue > 1e-4


LENGTHS = [[300, 305, 310, 330], [1, 2, 10, 100, 1000], [50, 50, 51, 90, 90, 90], [7, 7, 7]]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_default_cluster_prefers_shorter_functions_as_funsearch(lengths: list[int]) -> None:
    fns = [testing.make_evaluated_function(1.0, "x" * length) for length in lengths]
    clustered = cluster.DefaultCluster(Random(1))
    for fn in fns:
        clustered.add_fn(fn)
    logits = [-(length - min(lengths)) / (max(lengths) + 1e-6) for length in lengths]
    check_frequencies(clustered, fns, [math.exp(logit) for logit in logits])


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_default_cluster_by_range_scales_lengths_as_seed(lengths: list[int]) -> None:
    fns = [testing.make_evaluated_function(1.0, "x" * length) for length in lengths]
    clustered = cluster.DefaultCluster(Random(2), by_range=True)
    for fn in fns:
        clustered.add_fn(fn)
    spread = max(lengths) - min(lengths)
    scaled = [(length - min(lengths)) / spread if spread else 0.0 for length in lengths]
    check_frequencies(clustered, fns, [math.exp(-item) for item in scaled])


def test_default_cluster_barely_separates_similar_lengths() -> None:
    fns = [testing.make_evaluated_function(1.0, "x" * 300), testing.make_evaluated_function(1.0, "x" * 330)]
    check_frequencies(filled(cluster.DefaultCluster(Random(3)), fns), fns, [math.exp(30 / 330), 1.0])


@pytest.mark.parametrize("tournament", [1, 2, 5])
def test_tournament_cluster_selects_winner(tournament: int) -> None:
    fns = [testing.make_evaluated_function(float(score), id=f"{score}.0") for score in range(6)]
    clustered = filled(cluster.TournamentCluster(Random(4), limit=10, tournament_size=tournament), fns)
    # The best of k draws out of n has a rank of at most r with probability (r / n) ** k.
    weights = [((rank + 1) / 6) ** tournament - (rank / 6) ** tournament for rank in range(6)]
    check_frequencies(clustered, fns, weights)


def test_elite_cluster_selects_ties_uniformly() -> None:
    fns = [testing.make_evaluated_function(1.0, id=f"{step}.0") for step in range(5)]
    check_frequencies(filled(cluster.EliteCluster(Random(5), ties=True), fns), fns, [1.0] * 5)


def filled[T: cluster.ListableCluster](clustered: T, fns: Sequence[function.Function]) -> T:
    for fn in fns:
        clustered.add_fn(fn)
    return clustered


functions = st.lists(st.integers(0, 6), max_size=30).map(
    lambda scores: [testing.make_evaluated_function(score, id=f"{step}.0") for step, score in enumerate(scores)]
)


def same(results: Sequence[function.Function], expected: Sequence[function.Function]) -> bool:
    return [id(fn) for fn in results] == [id(fn) for fn in expected]


@given(functions)
def test_default_cluster_keeps_all_functions(fns: list[function.Function]) -> None:
    assert same(filled(cluster.DefaultCluster(Random(0)), fns).members(), fns)


@given(functions)
def test_elite_cluster_keeps_first_of_best(fns: list[function.Function]) -> None:
    best = [fn for fn in fns if fn.score() == max(map(function.get_fitness, fns))]
    assert same(filled(cluster.EliteCluster(Random(0)), fns).members(), best[:1])


@given(functions)
def test_elite_cluster_with_ties_keeps_all_best(fns: list[function.Function]) -> None:
    best = [fn for fn in fns if fn.score() == max(map(function.get_fitness, fns))]
    assert same(filled(cluster.EliteCluster(Random(0), ties=True), fns).members(), best)


@given(functions, st.integers(1, 6))
def test_tournament_cluster_keeps_best_and_earlier_of_ties(fns: list[function.Function], limit: int) -> None:
    ranked = sorted(fns, key=lambda fn: -function.get_fitness(fn))  # sorting is stable
    assert same(filled(cluster.TournamentCluster(Random(0), limit=limit), fns).members(), ranked[:limit])


@given(functions, st.integers(1, 6), st.randoms(use_true_random=False))
def test_tournament_cluster_keeps_text_once_and_accepts_dropped_text(
    fns: list[function.Function], limit: int, rng: Random
) -> None:
    population, stored = cluster.TournamentCluster(Random(0), limit=limit), list[function.Function]()
    for fn in [*fns, *rng.sample(fns, len(fns))]:
        population.add_fn(fn.clone())
        if str(fn.skeleton()) not in [str(item.skeleton()) for item in stored]:
            stored = sorted([*stored, fn], key=lambda item: -function.get_fitness(item))[:limit]
    assert [str(fn.skeleton()) for fn in population.members()] == [str(fn.skeleton()) for fn in stored]


# Selections of one seed from texts of 36, 49, 64, ... 196 letters, by length.
EXPECTED_SELECTIONS = {
    "default": "64 169 121 81 121 49 64 49 121 81 81 144 100 144 81 144 49 144 121 100 36 81 36 64",
    "by range": "64 169 121 81 121 49 64 49 121 81 144 144 81 144 49 144 121 100 36 81 36 64 36 49",
    "ties": "49 49 49 169 49 100 100 169 169 100 49 100 49 100 100 49 169 100 169 100 100 169 100 169",
    "pool": "49 49 169 100 100 169 49 169 36 36 100 36 100 49 100 100 36 169 169 49 169 169 81 100",
}


@pytest.mark.parametrize("kind", EXPECTED_SELECTIONS)
def test_cluster_selection_is_stable_across_versions(kind: str) -> None:
    rng = Random(2)
    every: dict[str, cluster.ListableCluster] = {
        "default": cluster.DefaultCluster(rng),
        "by range": cluster.DefaultCluster(rng, by_range=True),
        "ties": cluster.EliteCluster(rng, ties=True),
        "pool": cluster.TournamentCluster(rng, limit=6),
    }
    stored = every[kind]
    for root in (3, 1, 2, 9, 8, 4, 5, 7, 6):
        stored.add_fn(testing.make_evaluated_function(float(root % 3), "x" * (root + 5) ** 2))
    assert " ".join(str(len(str(stored.select_fn().skeleton()))) for _ in range(24)) == EXPECTED_SELECTIONS[kind]
    assert len(str(stored.best_fn().skeleton())) == 49


def test_empty_cluster_error_says_what_to_do() -> None:
    for stored in (
        cluster.DefaultCluster(Random(0)),
        cluster.EliteCluster(Random(0)),
        cluster.TournamentCluster(Random(0)),
    ):
        for ask in (stored.select_fn, stored.best_fn):
            with pytest.raises(errors.NotFound) as refused:
                ask()
            assert str(refused.value) == "The cluster is empty: add a function first."


def test_cluster_announces_added_and_selected_functions() -> None:
    events = list[cluster.ClusterEvent]()
    stored = cluster.DefaultCluster(Random(0))
    fns = [testing.make_evaluated_function(1.0, "one"), testing.make_evaluated_function(2.0, "other")]
    stored.add_fn(fns[0])
    remove = stored.use_profiler(events.append)
    stored.add_fn(fns[1])
    selected = stored.select_fn()
    remove()
    stored.select_fn()
    assert events == [cluster.OnFnAdded("on_fn_added", fns[1]), cluster.OnFnSelected("on_fn_selected", (fns, selected))]


def test_elite_cluster_ranks_invalid_value_last() -> None:
    def value(fn: function.Function) -> float:
        return {"none": math.nan, "some": -1e300}[str(fn.skeleton())]

    for ties in (False, True):
        stored = cluster.EliteCluster(Random(0), value=value, ties=ties)
        for text in ("unknown", "none", "some", "none", "unknown"):
            stored.add_fn(testing.make_evaluated_function(1.0, text))
        assert [str(fn.skeleton()) for fn in stored.members()] == ["some"]
    both = cluster.EliteCluster(Random(0), value=value, ties=True)
    for text in ("unknown", "none"):
        both.add_fn(testing.make_evaluated_function(1.0, text))
    assert [str(fn.skeleton()) for fn in both.members()] == ["unknown", "none"]


@pytest.mark.parametrize("kind", ["default", "elite", "pool"])
def test_clusters_announce_events_to_shared_profilers(kind: str) -> None:
    events, profilers = list[cluster.ClusterEvent](), profiler.Profilers[cluster.ClusterEvent]()
    profilers.use(events.append)
    every: dict[str, cluster.ListableCluster] = {
        "default": cluster.DefaultCluster(Random(0), profilers),
        "elite": cluster.EliteCluster(Random(0), profilers),
        "pool": cluster.TournamentCluster(Random(0), profilers),
    }
    stored, fn = every[kind], testing.make_evaluated_function(1.0)
    stored.add_fn(fn)
    assert stored.select_fn() is fn
    assert events == [cluster.OnFnAdded("on_fn_added", fn), cluster.OnFnSelected("on_fn_selected", ([fn], fn))]


def test_tournament_cluster_keeps_100_by_default_and_forgets_dropped_texts() -> None:
    stored = cluster.TournamentCluster(Random(0))
    for number in range(102):
        stored.add_fn(testing.make_evaluated_function(float(number), f"text {number}"))
    assert [fn.score() for fn in stored.members()] == [float(number) for number in range(101, 1, -1)]
    stored.add_fn(testing.make_evaluated_function(1000.0, "text 0"))
    stored.add_fn(testing.make_evaluated_function(1001.0, "text 50"))
    assert str(stored.best_fn().skeleton()) == "text 0"
    assert len(stored.members()) == 100
