"""NichedPopulation, compared with simple models that keep every function."""

import gc
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import archipelago, cluster, errors, evaluation, function, testing
from atoll.gate import Decision

ACCEPT = Decision("accept", "it ran", "test")


def funsearch(rng: Random) -> cluster.NichedPopulation:
    return cluster.NichedPopulation(
        cluster.by_signature, lambda key: cluster.DefaultCluster(rng), cluster.SoftmaxSelector(rng)
    )


def grid(rng: Random, num_bins: int = 4) -> cluster.NichedPopulation:
    bins = cluster.FeatureBins([first_of, second_of], num_bins)
    return cluster.NichedPopulation(bins, lambda key: cluster.EliteCluster(rng), cluster.WeightSelector(rng))


def pareto(rng: Random) -> cluster.NichedPopulation:
    def make_cluster(key: Hashable) -> cluster.EliteCluster:
        assert isinstance(key, int)
        return cluster.EliteCluster(rng, value=lambda fn: scores_of(fn)[key], ties=True)

    return cluster.NichedPopulation(
        cluster.by_instance, make_cluster, cluster.WeightSelector(rng, lambda score, size: size)
    )


def pool(rng: Random, limit: int = 7) -> cluster.NichedPopulation:
    return cluster.NichedPopulation(
        cluster.single_niche,
        lambda key: cluster.TournamentCluster(rng, limit=limit),
        cluster.RankSelector(rng),
        num_parents=1,
    )


def scores_of(fn: function.Function) -> tuple[float, ...]:
    assert fn.evaluation is not None
    return fn.evaluation.scores


def first_of(fn: function.Function) -> float:
    return scores_of(fn)[0]


def second_of(fn: function.Function) -> float:
    return scores_of(fn)[1]


def id_of(fn: function.Function) -> str:
    assert fn.candidate is not None
    return fn.candidate.id


class TestFunSearchClusters(testing.PopulationSuite):
    def make(self, rng: Random) -> archipelago.Population:
        return funsearch(rng)


class TestMapElites(testing.PopulationSuite):
    def make(self, rng: Random) -> archipelago.Population:
        return grid(rng)


class TestParetoFront(testing.PopulationSuite):
    def make(self, rng: Random) -> archipelago.Population:
        return pareto(rng)


class TestBoundedPool(testing.PopulationSuite):
    def make(self, rng: Random) -> archipelago.Population:
        return pool(rng)


def filled(niches: cluster.NichedPopulation, fns: Sequence[function.Function]) -> cluster.NichedPopulation:
    for fn in fns:
        assert niches.add_fn(fn, ACCEPT) == ACCEPT
    return niches


def list_members(niches: cluster.NichedPopulation) -> dict[Hashable, list[str]]:
    return {key: [id_of(fn) for fn in item.members()] for key, item in niches.clusters.items()}


def numbered(all_scores: Sequence[Sequence[float]]) -> list[function.Function]:
    return [testing.make_evaluated_function(scores, id=f"{step}.0") for step, scores in enumerate(all_scores, 1)]


few = st.integers(-2, 2).map(float)
triples = st.lists(st.tuples(few, few, few), max_size=25)


@given(triples)
def test_funsearch_clusters_hold_all_functions_of_one_signature(all_scores: list[tuple[float, ...]]) -> None:
    fns = numbered(all_scores)
    by_signature: dict[str, list[str]] = {}
    for fn in fns:
        by_signature.setdefault(fn.signature(), []).append(id_of(fn))
    niches = filled(funsearch(Random(0)), fns)
    assert sorted(list_members(niches).values()) == sorted(by_signature.values())


@given(triples)
def test_pareto_front_holds_best_of_each_input_with_ties(all_scores: list[tuple[float, ...]]) -> None:
    fns = numbered(all_scores)
    front = {}
    for index in range(3 if fns else 0):
        best = max(scores_of(fn)[index] for fn in fns)
        front[index] = [id_of(fn) for fn in fns if scores_of(fn)[index] == best]
    niches = filled(pareto(Random(0)), fns)
    assert list_members(niches) == front


@given(triples.filter(bool))
def test_parents_are_on_pareto_front(all_scores: list[tuple[float, ...]]) -> None:
    fns = numbered(all_scores)
    parents = filled(pareto(Random(0)), fns).select().parents
    tops = [max(scores_of(fn)[index] for fn in fns) for index in range(3)]
    assert parents
    assert all(any(score == top for score, top in zip(scores_of(fn), tops, strict=True)) for fn in parents)


@given(triples, st.integers(1, 5))
def test_bounded_population_holds_best(all_scores: list[tuple[float, ...]], limit: int) -> None:
    fns = numbered(all_scores)
    best = sorted(fns, key=lambda fn: -function.get_fitness(fn))[:limit]
    assert list_members(filled(pool(Random(0), limit), fns)) == (
        {"everyone": [id_of(fn) for fn in best]} if fns else {}
    )


def cells_by_hand(values: Sequence[float], num_bins: int) -> list[int]:
    """Returns the bins of values added in this order, in exact arithmetic."""
    width = Fraction(1, 2**20)
    while width * 2**20 <= max(abs(Fraction(values[0])), Fraction(1)):
        width *= 2
    low = Fraction(values[0]) // width * width
    for item in map(Fraction, values):
        while not low <= item < low + width * num_bins:
            half = width * num_bins
            width *= 2
            low = low // width * width if item >= low else -((half - low) // width * width)
    return [int((Fraction(value) - low) // width) for value in values]


features = st.integers(-(10**6), 10**6).map(lambda n: n / 1e5) | st.sampled_from(
    [0.0, 1.0, 0.1, 1e-9, -1e-9, 1e3, -1e3, 2.0**30, 1e200, -1e200]
)
points = st.lists(st.tuples(features, features), min_size=1, max_size=25, unique=True)


@given(points, st.sampled_from([2, 4, 10]))
def test_grid_holds_elites_after_rebinning(all_scores: list[tuple[float, float]], num_bins: int) -> None:
    fns = numbered(all_scores)
    firsts = cells_by_hand([first_of(fn) for fn in fns], num_bins)
    seconds = cells_by_hand([second_of(fn) for fn in fns], num_bins)
    best: dict[tuple[int, int], float] = {}
    for fn, cell in zip(fns, zip(firsts, seconds, strict=True), strict=True):
        best[cell] = max(best.get(cell, -math.inf), function.get_fitness(fn))
    niches = filled(grid(Random(0), num_bins), fns)
    assert {key: function.get_fitness(item.best_fn()) for key, item in niches.clusters.items()} == best
    assert all(len(ids) == 1 for ids in list_members(niches).values())


@given(points)
def test_grid_members_have_their_own_cell(all_scores: list[tuple[float, float]]) -> None:
    fns = numbered(all_scores)
    niches = filled(grid(Random(0)), fns)
    for ids in list_members(niches).values():
        assert id_of(niches.get(ids[0])) == ids[0]
    assert {id_of(niches.best_fn())} <= {ids[0] for ids in list_members(niches).values()}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_finite_value_has_bin(values: list[float]) -> None:
    bins = cluster.FeatureBins([lambda fn: function.get_fitness(fn)], 6)
    for value in values:
        assert bins(testing.make_evaluated_function(value))[0] in {(cell,) for cell in range(6)}


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_infinite_value_has_own_bin_and_keeps_range(value: float) -> None:
    bins = cluster.FeatureBins([lambda fn: value if id_of(fn) == "2.0" else first_of(fn)])
    before = [bins(fn) for fn in numbered([(1.0,), (2.0,), (3.0,)])]
    assert before[1] == ((-1,),)
    generation = bins.generation
    bins(testing.make_evaluated_function(9.0, id="2.0"))
    assert bins.generation == generation


def test_bin_ranges_grow_rarely() -> None:
    rng, bins = Random(0), cluster.FeatureBins([first_of])
    for step in range(2000):
        bins(testing.make_evaluated_function(rng.gauss(0.0, 100.0), id=f"{step}.0"))
    assert bins.generation < 60


def test_feature_exception_rejects_function_and_keeps_range() -> None:
    def moody(fn: function.Function) -> float:
        assert fn.evaluation is not None
        return fn.evaluation.metrics["length"]

    bins = cluster.FeatureBins([first_of, moody])
    niches = cluster.NichedPopulation(
        bins, lambda key: cluster.EliteCluster(Random(0)), cluster.RankSelector(Random(0))
    )
    niches.add_fn(testing.make_evaluated_function(1.0, id="1.0", metrics={"length": 3.0}), ACCEPT)
    before = (bins.generation, list_members(niches))
    decision = niches.add_fn(testing.make_evaluated_function(1e6, id="2.0"), ACCEPT)
    assert (decision.verdict, decision.decided_by) == ("reject", "keys")
    assert "length" in decision.reason
    assert (bins.generation, list_members(niches)) == before


@pytest.mark.parametrize("num_bins", [0, 1, 3, -2])
def test_odd_number_of_bins_is_rejected(num_bins: int) -> None:
    with pytest.raises(errors.SetupError, match="even number"):
        cluster.FeatureBins([first_of], num_bins)


def test_function_without_score_is_not_added() -> None:
    niches = funsearch(Random(0))
    niches.add_fn(testing.make_failed_function(), ACCEPT)
    assert niches.clusters == {}
    with pytest.raises(errors.NotFound):
        niches.best_fn()


def test_replaced_function_is_not_found() -> None:
    niches = filled(grid(Random(0)), numbered([(0.0, 0.0), (0.0, 0.0)]))
    niches.add_fn(testing.make_evaluated_function((0.0, 1e-9), id="3.0"), ACCEPT)
    gc.collect()
    with pytest.raises(errors.NotFound, match=r"1\.0"):
        niches.get("1.0")
    assert id_of(niches.get("3.0")) == "3.0"


def test_selection_includes_inspirations() -> None:
    def others(niches: cluster.NichedPopulation) -> Mapping[str, Sequence[function.Function]]:
        return {"top": [niches.best_fn()]}

    niches = cluster.NichedPopulation(
        cluster.single_niche,
        lambda key: cluster.DefaultCluster(Random(0)),
        cluster.RankSelector(Random(0)),
        inspirations=others,
    )
    filled(niches, numbered([(1.0,), (5.0,), (2.0,)]))
    assert [id_of(fn) for fn in niches.select().inspirations["top"]] == ["2.0"]


def test_function_can_be_in_several_niches() -> None:
    niches = filled(pareto(Random(0)), numbered([(5.0, 5.0, 0.0), (0.0, 0.0, 1.0)]))
    assert list_members(niches) == {0: ["1.0"], 1: ["1.0"], 2: ["2.0"]}


def test_update_evaluation_moves_member_to_new_niche() -> None:
    niches = filled(pareto(Random(0)), numbered([(5.0, 0.0), (0.0, 5.0)]))
    member = niches.get("1.0")
    again = testing.make_evaluated_function((0.0, 9.0))
    assert member.candidate is not None
    niches.update_evaluation(member.with_evaluation(member.candidate, again.evaluation, again.score()))
    assert list_members(niches) == {0: ["1.0", "2.0"], 1: ["1.0"]}
    assert niches.best_fn().score() == 4.5


@pytest.mark.parametrize("make", [funsearch, grid, pareto, pool])
def test_update_with_failure_removes_member_unless_last(make: Callable[[Random], cluster.NichedPopulation]) -> None:
    niches = filled(make(Random(0)), numbered([(5.0, 5.0), (4.0, 9.0), (0.0, 0.0)]))
    ids = {id for item in list_members(niches).values() for id in item}
    failing = niches.get("2.0")
    assert failing.candidate is not None
    niches.update_evaluation(failing.with_evaluation(failing.candidate, evaluation.failed("it crashed")))
    assert {id for item in list_members(niches).values() for id in item} == ids - {"2.0"}
    assert id_of(niches.best_fn()) == "1.0"


@given(triples.filter(bool), st.data())
def test_niches_match_members_after_update_evaluation(all_scores: list[tuple[float, ...]], data: st.DataObject) -> None:
    niches = filled(funsearch(Random(0)), numbered(all_scores))
    id = f"{data.draw(st.integers(1, len(all_scores)))}.0"
    scores = data.draw(st.tuples(few, few, few))
    again, member = testing.make_evaluated_function(scores), niches.get(id)
    assert member.candidate is not None
    niches.update_evaluation(member.with_evaluation(member.candidate, again.evaluation, again.score()))
    changed = [scores if f"{step}.0" == id else item for step, item in enumerate(all_scores, 1)]
    by_signature: dict[tuple[float, ...], set[str]] = {}
    for step, item in enumerate(changed, 1):
        by_signature.setdefault(tuple(item), set()).add(f"{step}.0")
    assert sorted(map(sorted, list_members(niches).values())) == sorted(map(sorted, by_signature.values()))
    assert function.get_fitness(niches.best_fn()) == pytest.approx(max(sum(item) / 3 for item in changed))
