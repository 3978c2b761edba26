"""What islands keep and which programs a step starts from (P17, P18), each against a slow and obvious way."""

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll import cluster, function, gate, profiler, testing
from atoll.candidate import Candidate
from atoll.programs.population import features
from atoll.programs.population.population import (
    CellRankSelector,
    ExploreExploitSelector,
    PopulationFactory,
    SelectionRatios,
    make_emigrant_selector,
)
from atoll.testing.fakes import make_evaluated_function

ACCEPT = gate.Decision("accept", "it ran", "test")


class TestMixed(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return ExploreExploitSelector(rng)


class TestMixedByRank(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return ExploreExploitSelector(rng, SelectionRatios(0.0, 0.0, 3))


class TestRanked(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return CellRankSelector(rng)

    @given(st.lists(st.floats(-9, 9), min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 99))
    def test_it_draws_what_the_kernels_own_draws(self, scores, k, seed):
        ours, theirs = CellRankSelector(Random(seed)), cluster.RankSelector(Random(seed))
        for index, score in enumerate(scores):
            ours.set(index, score, 1)
            theirs.set(index, score, 1)
        assert list(ours.select(k, 1)) == list(theirs.select(k, 1))


class TestGrid(testing.PopulationSuite):
    def make(self, rng: Random) -> cluster.NichedPopulation:
        return PopulationFactory(num_parents=2)(0, rng, profiler.Profilers())


class TestFront(testing.PopulationSuite):
    def make(self, rng: Random) -> cluster.NichedPopulation:
        return PopulationFactory("front")(0, rng, profiler.Profilers())


class TestClusters(testing.PopulationSuite):
    def make(self, rng: Random) -> cluster.NichedPopulation:
        return PopulationFactory("clusters", 2)(0, rng, profiler.Profilers())


def filled(shelf: PopulationFactory, fns, rng: Random | None = None) -> cluster.NichedPopulation:
    pool = shelf(0, rng or Random(0), profiler.Profilers())
    for fn in fns:
        assert pool.add_fn(fn, ACCEPT).verdict == "accept"
    return pool


def ids(fns) -> list[str]:
    return [fn.candidate.id for fn in fns]


class TestParents:
    @pytest.mark.parametrize("shift", [0.0, -1000.0])
    @pytest.mark.parametrize(
        ("shares", "weights"),
        [
            (SelectionRatios(1.0, 0.0, 2), [1 / 5] * 5),
            (SelectionRatios(0.0, 1.0, 2), [1 / 2, 1 / 2, 0, 0, 0]),
            (SelectionRatios(0.0, 0.0, 2), [9 / 25, 7 / 25, 5 / 25, 3 / 25, 1 / 25]),
            (
                SelectionRatios(0.2, 0.7, 2),
                [0.04 + 0.35 + 0.036, 0.04 + 0.35 + 0.028, 0.04 + 0.02, 0.04 + 0.012, 0.04 + 0.004],
            ),
        ],
    )
    def test_they_are_drawn_as_the_shares_say_whatever_the_sign_of_scores(self, shares, weights, shift):
        chooser, count = ExploreExploitSelector(Random(1), shares), 20_000
        for index, score in enumerate((3.0, -1.0, 8.0, 0.0, 5.0)):
            chooser.set(index, score + shift, 1)
        drawn = Counter(chooser.select(1, 1)[0] for _ in range(count))
        for index, weight in zip((2, 4, 0, 3, 1), weights, strict=True):
            assert drawn[index] / count == pytest.approx(weight, abs=4 * math.sqrt(0.25 / count))

    @given(st.lists(st.integers(-5, 5), min_size=1, max_size=12), st.integers(0, 15), st.integers(0, 9))
    def test_no_cell_is_drawn_twice_and_all_are_if_wanted(self, scores, k, seed):
        chooser = ExploreExploitSelector(Random(seed))
        for index, score in enumerate(scores):
            chooser.set(index, float(score), 1)
        chosen = chooser.select(k, 1)
        assert len(set(chosen)) == len(chosen) == min(k, len(scores))


def program(number: int, score: float, length: int, **metrics: float) -> function.Function:
    return make_evaluated_function(score, "x" * length + f"\n{number}", id=f"{number}.0", metrics=metrics)


PROGRAMS = st.lists(
    st.tuples(st.integers(-9, 9), st.floats(-50, 50, allow_subnormal=False), st.floats(-1e6, 1e6)),
    min_size=1,
    max_size=40,
)


class TestCells:
    @settings(deadline=None)
    @given(PROGRAMS)
    def test_each_cell_keeps_what_all_programs_ever_seen_would_give(self, rows):
        fns = [program(place, score, 5, a=a, b=b) for place, (score, a, b) in enumerate(rows, 1)]
        pool = filled(PopulationFactory(features=("a", "b"), num_bins=4), fns)
        final = pool.niche_key  # the ranges as they are now: every program is keyed anew
        best = dict[object, function.Function]()
        for fn in fns:
            key = final(fn)[0]
            if key not in best or function.get_fitness(fn) > function.get_fitness(best[key]):
                best[key] = fn
        kept = {key: cell.best_fn() for key, cell in pool.clusters.items()}
        assert {key: ids([fn]) for key, fn in kept.items()} == {key: ids([fn]) for key, fn in best.items()}
        assert len(kept) <= 16

    def test_a_metric_of_the_evaluator_wins_over_our_own(self):
        [measure] = features.make_features(["complexity"])
        assert measure(program(1, 0.0, 10)) == 12.0
        assert measure(program(1, 0.0, 10, complexity=3.0)) == 3.0

    def test_a_dimension_that_nobody_knows_is_a_cell_of_its_own(self):
        pool = filled(PopulationFactory(features=("unheard",)), [program(1, 0.0, 1), program(2, 1.0, 1)])
        assert list(pool.clusters) == [(-1,)]
        assert ids([pool.best_fn()]) == ["2.0"]

    @given(st.lists(st.lists(st.sampled_from("abcd"), max_size=5), min_size=1, max_size=30))
    def test_diversity_is_the_mean_distance_to_the_first_that_differ(self, texts):
        measure, references = features.Diversity(4), list[set[str]]()
        said = dict[str, float]()
        for place, lines in enumerate(texts):
            text = "\n".join(lines) or "-"
            own = set(lines) or {"-"}
            if text not in said:
                far = [1 - len(own & other) / len(own | other) for other in references]
                said[text] = sum(far) / len(far) if far else 0.0
                if own not in references and len(references) < 4:
                    references.append(own)
            assert measure(make_evaluated_function(0.0, text, id=f"{place}.0")) == pytest.approx(said[text])


class TestFronts:
    @given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=20))
    def test_each_instance_keeps_all_that_are_best_on_it(self, rows):
        fns = [
            make_evaluated_function([float(each) for each in row], id=f"{place}.0") for place, row in enumerate(rows, 1)
        ]
        pool = filled(PopulationFactory("front"), fns)
        for instance in range(3):
            most = max(row[instance] for row in rows)
            expected = [f"{place}.0" for place, row in enumerate(rows, 1) if row[instance] == most]
            assert ids(pool.clusters["instance", instance].members()) == expected

    def test_with_one_instance_each_metric_has_a_front_and_less_may_be_better(self):
        fns = [program(1, 1.0, 5, loss=3.0, speed=1.0), program(2, 2.0, 5, loss=1.0, speed=0.0)]
        pool = filled(
            PopulationFactory("front", metric_value=lambda name, value: -value if name == "loss" else value), fns
        )
        best = {key: ids(cell.members()) for key, cell in pool.clusters.items()}
        assert best == {("score",): ["2.0"], ("metric", "loss"): ["2.0"], ("metric", "speed"): ["1.0"]}


class TestOthers:
    def test_a_step_is_shown_the_best_some_and_neighbours(self):
        fns = [program(place, float(place), 5, a=float(place)) for place in range(1, 17)]
        pool = filled(PopulationFactory(features=("a",), num_bins=32), fns)
        pick = pool.select()
        assert ids(pick.inspirations["top"]) == ["16.0", "15.0", "14.0"]
        assert len(pick.inspirations["diverse"]) == 2
        [parent] = pick.parents
        near = {
            abs(function.get_fitness(fn) - function.get_fitness(parent)) for fn in pick.inspirations["inspirations"]
        }
        assert near <= {1.0, 2.0}

    def test_what_is_not_wanted_is_not_shown(self):
        pool = filled(PopulationFactory(num_top=0, num_diverse=0), [program(1, 0.0, 5)])
        assert pool.select().inspirations == {}


class Island:
    def __init__(self, pool: cluster.NichedPopulation, index: int) -> None:
        self.population, self.index = pool, index

    def best_fn(self) -> function.Function:
        return self.population.best_fn()


class TestMigration:
    @given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 1)), min_size=1, max_size=20), st.floats(0, 1))
    def test_the_best_share_of_the_cells_leaves_but_no_migrant_again(self, rows, rate):
        fns = list[function.Function]()
        for place, (score, home) in enumerate(rows, 1):
            fn = program(place, float(score), 5, a=float(place))
            assert fn.candidate is not None
            born = Candidate(fn.candidate.id, fn.candidate.content, island=home)
            fns.append(fn.with_evaluation(born, fn.evaluation, fn.score()))
        pool = filled(PopulationFactory(features=("a",), num_bins=64), fns)
        order = sorted(fns, key=lambda fn: -function.get_fitness(fn))[: max(1, math.ceil(rate * len(fns)))]
        expected = [fn.candidate.id for fn in order if fn.candidate and fn.candidate.island == 1]
        assert ids(make_emigrant_selector(rate)(Island(pool, 1))) == expected  # type: ignore[arg-type]

    def test_a_pool_of_another_kind_sends_its_best(self):
        pool = cluster.NichedPopulation(
            cluster.single_niche, lambda key: cluster.TournamentCluster(Random(0)), cluster.WeightSelector(Random(0))
        )
        pool.add_fn(program(1, 0.0, 5), ACCEPT)
        assert ids(make_emigrant_selector(0.5)(Island(pool, 0))) == ["1.0"]  # type: ignore[arg-type]
