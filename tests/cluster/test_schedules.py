"""Schedules: island turns, migrations and resets, compared with simple models."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest
import scipy  # it imports `stats` when a test uses it
from hypothesis import given
from hypothesis import strategies as st

from atoll import archipelago, cluster, function, profiler, testing
from atoll.gate import Decision
from atoll.testing import FakeClock


def ring(scores: Sequence[float]) -> list[cluster.Island]:
    """Returns islands of one function each with these scores."""
    islands = []
    for index, score in enumerate(scores):
        niches = cluster.NichedPopulation(
            cluster.single_niche, lambda key: cluster.EliteCluster(Random(0)), cluster.RankSelector(Random(0))
        )
        niches.add_fn(testing.make_evaluated_function(score, id=f"{index}.0"), Decision("accept", "it ran", "test"))
        islands.append(cluster.Island(index, 0, niches, profiler.Profilers(), lambda island: island.best_fn()))
    return islands


def id_of(fn: function.Function) -> str:
    assert fn.candidate is not None
    return fn.candidate.id


def migrations(actions: Sequence[archipelago.Migration | archipelago.Reset]) -> list[tuple[str, int]]:
    return [(id_of(action.fn), action.target) for action in actions if isinstance(action, archipelago.Migration)]


def resets(actions: Sequence[archipelago.Migration | archipelago.Reset]) -> dict[int, list[str]]:
    return {
        action.island: [id_of(fn) for fn in action.founders]
        for action in actions
        if isinstance(action, archipelago.Reset)
    }


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 100))
def test_islands_take_turns_in_blocks(num_islands: int, block: int, steps: int) -> None:
    turns = [index for _ in range(steps) for index in range(num_islands) for _ in range(block)][:steps]
    schedule = cluster.RoundRobin(num_islands, block_size=block)
    assert [schedule.choose_island(step) for step in range(1, steps + 1)] == turns


@given(st.integers(2, 6), st.integers(1, 7))
def test_best_of_each_island_migrates_to_next_island(num_islands: int, every: int) -> None:
    islands = ring([float(index) for index in range(num_islands)])
    schedule = cluster.RoundRobin(num_islands, migrate_every=every)
    around = [(f"{index}.0", (index + 1) % num_islands) for index in range(num_islands)]
    for applied in range(1, 30):
        assert migrations(schedule.plan_actions(applied, islands, "seed")) == (around if applied % every == 0 else [])


def test_migrants_can_be_chosen() -> None:
    schedule = cluster.RoundRobin(2, migrate_every=1, select_emigrants=lambda island: [island.best_fn()] * island.index)
    assert migrations(schedule.plan_actions(1, ring([0.0, 1.0]), "seed")) == [("1.0", 0)]


def test_single_island_has_no_migration_or_reset() -> None:
    assert cluster.RoundRobin(1, migrate_every=1, reset_every=1).plan_actions(1, ring([0.0]), "seed") == []


@given(st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=9), st.integers())
def test_worst_half_is_reset_from_best_of_survivors(scores: list[float], seed: int) -> None:
    result = resets(cluster.RoundRobin(len(scores), reset_every=1).plan_actions(1, ring(scores), f"{seed}"))
    assert list(result) == sorted(result)
    assert len(result) == len(scores) // 2
    assert sorted(scores[index] for index in result) == sorted(scores)[: len(scores) // 2]
    stored = {f"{index}.0" for index in range(len(scores)) if index not in result}
    assert all(len(founders) == 1 and founders[0] in stored for founders in result.values())


@given(st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=9), st.integers())
def test_reset_can_use_overall_best(scores: list[float], seed: int) -> None:
    worst = cluster.reset_worst_half(founder="best")
    result = resets(
        cluster.RoundRobin(len(scores), reset_every=1, reset_rule=worst).plan_actions(1, ring(scores), f"{seed}")
    )
    founders = [scores[int(ids[0].partition(".")[0])] for ids in result.values()]
    assert founders == [max(scores)] * len(result)


@given(st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=9), st.integers())
def test_reset_is_determined_by_seed(scores: list[float], seed: int) -> None:
    schedule = cluster.RoundRobin(len(scores), reset_every=1)
    first, second = (resets(schedule.plan_actions(applied, ring(scores), f"{seed}")) for applied in (1, 2))
    assert first == second


def test_founders_are_drawn_uniformly_and_ties_broken_randomly() -> None:
    schedule, islands = cluster.RoundRobin(4, reset_every=1), ring([1.0, 1.0, 1.0, 1.0])
    founders, removed = Counter[str](), Counter[int]()
    for seed in range(4000):
        result = resets(schedule.plan_actions(1, islands, f"{seed}"))
        founders.update(ids[0] for ids in result.values())
        removed.update(list(result))
    for counts in (founders, removed):
        assert len(counts) == 4
        assert scipy.stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_reset_noise_blurs_small_differences() -> None:
    islands = ring([1.0, 1.0 + 1e-12])
    exact = cluster.RoundRobin(2, reset_every=1)
    assert all(resets(exact.plan_actions(1, islands, f"{seed}")) == {0: ["1.0"]} for seed in range(50))
    noisy = cluster.RoundRobin(2, reset_every=1, reset_rule=cluster.reset_worst_half(noise=1e-6))
    removed = Counter(next(iter(resets(noisy.plan_actions(1, islands, f"{seed}")))) for seed in range(200))
    assert min(removed[0], removed[1]) > 50


def test_reset_compares_islands_by_score_not_fitness() -> None:
    islands = ring([1.0, 2.0])
    best = islands[0].best_fn()
    assert best.candidate is not None
    islands[0].population.update_evaluation(
        best.with_evaluation(best.candidate, best.evaluation, 100.0)
    )  # has a high fitness
    assert list(resets(cluster.RoundRobin(2, reset_every=1).plan_actions(1, islands, "seed"))) == [0]


def test_time_based_resets_repeat() -> None:
    clock = FakeClock(1000.0)
    schedule, islands = cluster.RoundRobin(2, reset_seconds=60.0, clock=clock), ring([0.0, 1.0])
    results = []
    for applied, seconds in enumerate((0.0, 59.0, 1.0, 30.0, 30.0, 1.0, 59.5), 1):
        clock.advance(seconds)
        results.append(bool(resets(schedule.plan_actions(applied, islands, "seed"))))
    assert results == [False, False, True, False, True, False, True]


@pytest.mark.parametrize(
    ("options", "uses"), [({}, False), ({"reset_every": 5}, False), ({"reset_seconds": 5.0}, True)]
)
def test_only_time_based_resets_use_clock(options: dict[str, float], uses: bool) -> None:
    assert cluster.RoundRobin(2, **options).uses_clock is uses  # type: ignore[arg-type]


def test_generation_runs_all_islands_then_migrates() -> None:
    schedule, islands = cluster.make_generation_schedule(3, 2, migrate_every=2, reset_every=3), ring([0.0, 1.0, 2.0])
    assert [schedule.choose_island(step) for step in range(1, 13)] == [0, 0, 1, 1, 2, 2] * 2
    due = {applied: schedule.plan_actions(applied, islands, "seed") for applied in range(1, 37)}
    assert [applied for applied, actions in due.items() if migrations(actions)] == [12, 24, 36]
    assert [applied for applied, actions in due.items() if resets(actions)] == [18, 36]
