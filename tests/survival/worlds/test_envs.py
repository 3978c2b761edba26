"""Crafter and MiniGrid, where the extra `envs` is installed."""

import importlib.util

import pytest

from atoll.survival import episode_reports
from atoll.survival.recipes import RecipeBook
from atoll.survival.worlds.world import Action
from tests.survival.lives import live, seen

has_envs = all(importlib.util.find_spec(name) for name in ("crafter", "minigrid"))
needs_envs = pytest.mark.skipif(not has_envs, reason="crafter and minigrid come with the extra envs")


@needs_envs
@pytest.mark.filterwarnings("ignore")
class TestMiniGrid:
    def test_lava_kills_once_and_is_avoided_ever_after(self):
        from atoll.survival.worlds.minigrid import MiniGridWorld

        lives = live(6, world=MiniGridWorld("MiniGrid-LavaGapS5-v0"), seed=70)
        assert sum(bool(life.cause) for life in lives) <= 1
        assert lives[-1].reward > 0.9


@pytest.fixture(scope="module")
def world():
    from atoll.survival.worlds.crafter import CrafterWorld

    made = CrafterWorld(area=32)
    made.reset(1)
    return made


@needs_envs
class TestCrafter:
    def test_one_sees_nine_by_seven_and_no_more(self, world):
        assert len(world.reset(1).tiles) == 63

    def test_the_same_seed_gives_the_same_world(self, world):
        first = world.reset(1).tiles
        assert world.reset(1).tiles == first

    def test_moves_turn_and_go(self, world):
        before = world.reset(1)
        after = world.act(Action("east"))
        assert after.facing == (after.position[0] + 1, after.position[1])
        assert after.tick == before.tick + 1

    def test_a_life_reaches_something(self, world):
        (life,) = live(1, world=world, seed=2)
        assert life.ticks > 50
        assert life.unlocked


class TestWorkshop:
    def test_what_failed_with_as_much_is_not_tried_again(self):
        shop = RecipeBook()
        shop.learn("make", seen(held={"wood": 1}), seen())
        assert not shop.is_promising("make", seen(held={"wood": 1}))
        assert shop.is_promising("make", seen(held={"wood": 2}))

    def test_a_success_is_a_recipe_that_can_be_read_again(self):
        shop = RecipeBook()
        recipe = shop.learn("make", seen(held={"wood": 3}), seen(held={"wood": 1}, gained=("table",)))
        assert recipe is not None
        assert recipe.text == "make with 2 wood near anything gives table."
        assert recipe.find_missing({"wood": 1}) == ["wood"]


def test_the_score_of_crafter_is_the_published_formula():
    assert episode_reports.compute_crafter_score([[]]) == pytest.approx(0.0)
    names = [f"achievement {number}" for number in range(22)]
    assert episode_reports.compute_crafter_score([names]) == pytest.approx(100.0)
