"""Crafter, MiniGrid (both need the extra `envs`) and recipes."""

import importlib.util

import pytest

from atoll.survival import episode_reports
from atoll.survival.beliefs import RecipeBook
from atoll.survival.worlds.world import Action
from tests.survival.episodes import build_observation, run_episodes

has_envs = all(importlib.util.find_spec(name) for name in ("crafter", "minigrid"))
needs_envs = pytest.mark.skipif(not has_envs, reason="crafter and minigrid come with the extra envs")


@needs_envs
@pytest.mark.filterwarnings("ignore")
class TestMiniGrid:
    def test_lava_is_avoided_after_first_death(self):
        from atoll.survival.worlds.minigrid import MiniGridWorld

        summaries = run_episodes(6, world=MiniGridWorld("MiniGrid-LavaGapS5-v0"), seed=70)
        assert sum(bool(summary.cause) for summary in summaries) <= 1
        assert summaries[-1].reward > 0.9


@pytest.fixture(scope="module")
def world():
    from atoll.survival.worlds.crafter import CrafterWorld

    crafter_world = CrafterWorld(area=32)
    crafter_world.reset(1)
    return crafter_world


@needs_envs
class TestCrafter:
    def test_view_is_nine_by_seven(self, world):
        assert len(world.reset(1).tiles) == 63

    def test_same_seed_gives_same_world(self, world):
        first = world.reset(1).tiles
        assert world.reset(1).tiles == first

    def test_move_turns_and_advances_tick(self, world):
        before = world.reset(1)
        after = world.act(Action("east"))
        assert after.facing == (after.position[0] + 1, after.position[1])
        assert after.tick == before.tick + 1

    def test_episode_unlocks_achievements(self, world):
        (summary,) = run_episodes(1, world=world, seed=2)
        assert summary.ticks > 50
        assert summary.unlocked


class TestRecipeBook:
    def test_failed_attempt_is_not_repeated_with_same_items(self):
        recipe_book = RecipeBook()
        recipe_book.learn("make", build_observation(inventory={"wood": 1}), build_observation())
        assert not recipe_book.is_promising("make", build_observation(inventory={"wood": 1}))
        assert recipe_book.is_promising("make", build_observation(inventory={"wood": 2}))

    def test_success_becomes_recipe(self):
        recipe_book = RecipeBook()
        recipe = recipe_book.learn(
            "make",
            build_observation(inventory={"wood": 3}),
            build_observation(inventory={"wood": 1}, gained=("table",)),
        )
        assert recipe is not None
        assert recipe.text == "make with 2 wood near anything gives table."
        assert recipe.find_missing({"wood": 1}) == ["wood"]


def test_crafter_score_matches_published_formula():
    assert episode_reports.compute_crafter_score([[]]) == pytest.approx(0.0)
    names = [f"achievement {index}" for index in range(22)]
    assert episode_reports.compute_crafter_score([names]) == pytest.approx(100.0)
