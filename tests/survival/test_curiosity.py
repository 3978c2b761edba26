import pytest

from atoll.survival.curiosity import RandomDistillation, VisitCounts
from atoll.survival.worlds.world import Observation
from tests.survival.lives import live, seen


def view(look: str) -> Observation:
    return seen(looks={(x, y): look for x in range(5) for y in range(5)})


def test_what_is_met_again_is_less_new():  # B8
    counts = VisitCounts()
    assert [counts.measure_novelty("here") for _ in range(4)] == pytest.approx([1.0, 0.707, 0.577, 0.5], abs=1e-3)


def test_distillation_gets_used_to_a_view_and_wakes_at_another():
    distillation = RandomDistillation(1)
    for _ in range(300):
        known = distillation.measure_novelty(view("ground"))
    assert distillation.measure_novelty(view("lava field")) > 3 * known


def test_curiosity_sees_more_of_the_world():
    curious, not_so = (sum(life.coverage for life in live(3, seed=11, has_curiosity=is_on)) for is_on in (True, False))
    assert curious > not_so


def test_fear_loses_less_life_per_tick():
    def rate(has_fear):
        lives = live(5, seed=12, has_fear=has_fear)
        return sum(life.damage for life in lives) / sum(life.ticks for life in lives)

    assert rate(True) < rate(False)
