"""Populations and selection of parents (P17, P18), compared with simple implementations."""

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll import cluster, function, gate, profiler, testing
from atoll.candidate import Candidate
from atoll.programs.population import population
from atoll.programs.population.population import (
    CellRankSelector,
    ExploreExploitSelector,
    PopulationFactory,
    SelectionRatios,
    make_emigrant_selector,
)
from atoll.testing.fakes import make_evaluated_function

ACCEPT = gate.Decision("accept", "it ran", "test")


class TestExploreExploitSelector(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return ExploreExploitSelector(rng)


class TestExploreExploitSelectorByRank(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return ExploreExploitSelector(rng, SelectionRatios(0.0, 0.0, 3))


class TestCellRankSelector(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return CellRankSelector(rng)

    @given(st.lists(st.floats(-9, 9), min_size=1, max_size=60), st.integers(1, 5), st.integers(0, 99))
    def test_selector_draws_like_rank_selector(self, scores, k, seed):
        ours, theirs = CellRankSelector(Random(seed)), cluster.RankSelector(Random(seed))
        for index, score in enumerate(scores):
            ours.set(index, score, 1)
            theirs.set(index, score, 1)
        assert list(ours.select(k, 1)) == list(theirs.select(k, 1))


class TestGridPopulation(testing.PopulationSuite):
    def make(self, rng: Random) -> cluster.NichedPopulation:
        return PopulationFactory(num_parents=2)(0, rng, profiler.Profilers())


class TestFront(testing.PopulationSuite):
    def make(self, rng: Random) -> cluster.NichedPopulation:
        return PopulationFactory("front")(0, rng, profiler.Profilers())


class TestClusterPopulation(testing.PopulationSuite):
    def make(self, rng: Random) -> cluster.NichedPopulation:
        return PopulationFactory("clusters", 2)(0, rng, profiler.Profilers())


def make_population(factory: PopulationFactory, fns, rng: Random | None = None) -> cluster.NichedPopulation:
    population = factory(0, rng or Random(0), profiler.Profilers())
    for fn in fns:
        assert population.add_fn(fn, ACCEPT).verdict == "accept"
    return population


def ids(fns) -> list[str]:
    return [fn.candidate.id for fn in fns]


class TestParents:
    @pytest.mark.parametrize("shift", [0.0, -1000.0])
    @pytest.mark.parametrize(
        ("ratios", "weights"),
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
    def test_parents_are_drawn_by_the_ratios_for_any_sign_of_scores(self, ratios, weights, shift):
        selector, count = ExploreExploitSelector(Random(1), ratios), 20_000
        for index, score in enumerate((3.0, -1.0, 8.0, 0.0, 5.0)):
            selector.set(index, score + shift, 1)
        drawn = Counter(selector.select(1, 1)[0] for _ in range(count))
        for index, weight in zip((2, 4, 0, 3, 1), weights, strict=True):
            assert drawn[index] / count == pytest.approx(weight, abs=4 * math.sqrt(0.25 / count))

    @given(st.lists(st.integers(-5, 5), min_size=1, max_size=12), st.integers(0, 15), st.integers(0, 9))
    def test_selection_draws_no_cell_twice(self, scores, k, seed):
        selector = ExploreExploitSelector(Random(seed))
        for index, score in enumerate(scores):
            selector.set(index, float(score), 1)
        chosen = selector.select(k, 1)
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
    def test_each_cell_keeps_its_best_program(self, rows):
        fns = [program(number, score, 5, a=a, b=b) for number, (score, a, b) in enumerate(rows, 1)]
        population = make_population(PopulationFactory(features=("a", "b"), num_bins=4), fns)
        final = population.niche_key  # the final ranges: every program gets a new key
        best = dict[object, function.Function]()
        for fn in fns:
            key = final(fn)[0]
            if key not in best or function.get_fitness(fn) > function.get_fitness(best[key]):
                best[key] = fn
        best_by_cell = {key: cell.best_fn() for key, cell in population.clusters.items()}
        assert {key: ids([fn]) for key, fn in best_by_cell.items()} == {key: ids([fn]) for key, fn in best.items()}
        assert len(best_by_cell) <= 16

    def test_evaluator_metric_overrides_built_in_feature(self):
        [measure] = population.make_features(["complexity"])
        assert measure(program(1, 0.0, 10)) == 12.0
        assert measure(program(1, 0.0, 10, complexity=3.0)) == 3.0

    def test_unknown_feature_has_its_own_cell(self):
        population = make_population(PopulationFactory(features=("unheard",)), [program(1, 0.0, 1), program(2, 1.0, 1)])
        assert list(population.clusters) == [(-1,)]
        assert ids([population.best_fn()]) == ["2.0"]

    @given(st.lists(st.lists(st.sampled_from("abcd"), max_size=5), min_size=1, max_size=30))
    def test_diversity_is_the_mean_distance_to_the_references(self, texts):
        measure, references = population.Diversity(4), list[set[str]]()
        expected_diversity = dict[str, float]()
        for number, lines in enumerate(texts):
            text = "\n".join(lines) or "-"
            own = set(lines) or {"-"}
            if text not in expected_diversity:
                far = [1 - len(own & other) / len(own | other) for other in references]
                expected_diversity[text] = sum(far) / len(far) if far else 0.0
                if own not in references and len(references) < 4:
                    references.append(own)
            assert measure(make_evaluated_function(0.0, text, id=f"{number}.0")) == pytest.approx(
                expected_diversity[text]
            )


class TestParetoCells:
    @given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=20))
    def test_each_instance_keeps_its_best_candidates(self, rows):
        fns = [
            make_evaluated_function([float(item) for item in row], id=f"{number}.0")
            for number, row in enumerate(rows, 1)
        ]
        population = make_population(PopulationFactory("front"), fns)
        for instance in range(3):
            most = max(row[instance] for row in rows)
            expected = [f"{number}.0" for number, row in enumerate(rows, 1) if row[instance] == most]
            assert ids(population.clusters["instance", instance].members()) == expected

    def test_single_instance_keeps_best_candidates_per_metric(self):
        fns = [program(1, 1.0, 5, loss=3.0, speed=1.0), program(2, 2.0, 5, loss=1.0, speed=0.0)]
        population = make_population(
            PopulationFactory("front", metric_value=lambda name, value: -value if name == "loss" else value), fns
        )
        best = {key: ids(cell.members()) for key, cell in population.clusters.items()}
        assert best == {("score",): ["2.0"], ("metric", "loss"): ["2.0"], ("metric", "speed"): ["1.0"]}


class TestInspirations:
    def test_selection_shows_top_diverse_and_neighboring_programs(self):
        fns = [program(number, float(number), 5, a=float(number)) for number in range(1, 17)]
        population = make_population(PopulationFactory(features=("a",), num_bins=32), fns)
        selection = population.select()
        assert ids(selection.inspirations["top"]) == ["16.0", "15.0", "14.0"]
        assert len(selection.inspirations["diverse"]) == 2
        [parent] = selection.parents
        near = {
            abs(function.get_fitness(fn) - function.get_fitness(parent))
            for fn in selection.inspirations["inspirations"]
        }
        assert near <= {1.0, 2.0}

    def test_zero_counts_show_no_inspirations(self):
        population = make_population(PopulationFactory(num_top=0, num_diverse=0), [program(1, 0.0, 5)])
        assert population.select().inspirations == {}


class Island:
    def __init__(self, population: cluster.NichedPopulation, index: int) -> None:
        self.population, self.index = population, index

    def best_fn(self) -> function.Function:
        return self.population.best_fn()


class TestMigration:
    @given(st.lists(st.tuples(st.integers(-20, 20), st.integers(0, 1)), min_size=1, max_size=20), st.floats(0, 1))
    def test_best_cells_migrate_but_migrants_do_not_migrate_again(self, rows, rate):
        fns = list[function.Function]()
        for number, (score, home) in enumerate(rows, 1):
            fn = program(number, float(score), 5, a=float(number))
            assert fn.candidate is not None
            candidate = Candidate(fn.candidate.id, fn.candidate.content, island=home)
            fns.append(fn.with_evaluation(candidate, fn.evaluation, fn.score()))
        population = make_population(PopulationFactory(features=("a",), num_bins=64), fns)
        order = sorted(fns, key=lambda fn: -function.get_fitness(fn))[: max(1, math.ceil(rate * len(fns)))]
        expected = [fn.candidate.id for fn in order if fn.candidate and fn.candidate.island == 1]
        assert ids(make_emigrant_selector(rate)(Island(population, 1))) == expected  # type: ignore[arg-type]

    def test_other_populations_send_their_best_candidate(self):
        population = cluster.NichedPopulation(
            cluster.single_niche, lambda key: cluster.TournamentCluster(Random(0)), cluster.WeightSelector(Random(0))
        )
        population.add_fn(program(1, 0.0, 5), ACCEPT)
        assert ids(make_emigrant_selector(0.5)(Island(population, 0))) == ["1.0"]  # type: ignore[arg-type]
