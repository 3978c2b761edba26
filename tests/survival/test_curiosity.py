import pytest

from atoll.survival.drives import RandomDistillation, VisitCounts
from atoll.survival.worlds.world import Observation
from tests.survival.episodes import build_observation, run_episodes


def make_view(tile: str) -> Observation:
    return build_observation(tiles={(x, y): tile for x in range(5) for y in range(5)})


def test_visit_counts_reduce_novelty():  # B8
    counts = VisitCounts()
    assert [counts.measure_novelty("here") for _ in range(4)] == pytest.approx([1.0, 0.707, 0.577, 0.5], abs=1e-3)


def test_distillation_novelty_falls_for_familiar_views():
    distillation = RandomDistillation(1)
    for _ in range(300):
        familiar = distillation.measure_novelty(make_view("ground"))
    assert distillation.measure_novelty(make_view("lava field")) > 3 * familiar


def test_curiosity_increases_coverage():
    curious, indifferent = (
        sum(summary.coverage for summary in run_episodes(3, seed=11, has_curiosity=is_on)) for is_on in (True, False)
    )
    assert curious > indifferent


def test_fear_reduces_damage_per_tick():
    def measure_rate(has_fear):
        summaries = run_episodes(5, seed=12, has_fear=has_fear)
        return sum(summary.damage for summary in summaries) / sum(summary.ticks for summary in summaries)

    assert measure_rate(True) < measure_rate(False)
