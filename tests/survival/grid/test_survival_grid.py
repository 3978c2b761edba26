import importlib.util
from collections import Counter
from statistics import fmean

import numpy as np
import pytest

from atoll import errors
from atoll.survival import grid

SEEDS = range(100_000, 100_012)
PRESETS = list(grid.PRESETS)
has_gymnasium = importlib.util.find_spec("gymnasium") is not None


def run_episode(preset: str, policy: grid.Policy, seed: int) -> tuple[int, str | None, float]:
    world, total = grid.SurvivalGrid(preset, seed % 5), 0.0
    world.reset(seed=seed)
    while True:
        step = world.step(policy(world))
        total += step.reward
        if step.terminated or step.truncated:
            return world.terrain.tick, world.body.cause, total


@pytest.mark.parametrize("preset", PRESETS)
def test_oracle_outlives_greedy_and_waiting_dies(preset):
    waited = [run_episode(preset, grid.WaitPolicy(), seed) for seed in SEEDS]
    greedy = [run_episode(preset, grid.GreedyPolicy(seed), seed)[0] for seed in SEEDS]
    ceiling = [run_episode(preset, grid.OraclePolicy(), seed)[0] for seed in SEEDS]
    assert all(cause for _, cause, _ in waited)
    assert fmean(ticks for ticks, _, _ in waited) * 1.3 < fmean(greedy)
    assert fmean(greedy) * 2 < fmean(ceiling)


def test_random_policy_dies_within_100_ticks():
    assert fmean(run_episode("meadow", grid.RandomPolicy(seed), seed)[0] for seed in SEEDS) < 100


def test_same_seed_gives_same_episode():
    assert run_episode("tundra", grid.GreedyPolicy(1), 7) == run_episode("tundra", grid.GreedyPolicy(1), 7)


def test_sign_meanings_depend_on_family():
    preset = grid.get_preset("meadow")
    assert grid.assign_meanings(preset, 3) == grid.assign_meanings(preset, 3)
    assert len({tuple(sorted(grid.assign_meanings(preset, family).items())) for family in range(20)}) > 15
    assert all(
        set(Counter(grid.assign_meanings(preset, family).values())) == {*grid.HAZARDS, "nothing"} for family in range(9)
    )


def test_worlds_of_a_family_share_sign_meanings():
    first, second = (grid.make_terrain(grid.get_preset("caldera"), seed, 4) for seed in (1, 2))
    assert first.cell_signs != second.cell_signs
    assert first.sign_meanings == second.sign_meanings


def test_text_view_hides_sign_meanings():
    world = grid.SurvivalGrid("caldera", 3, "text")
    text = "".join(str(world.reset(seed=seed)[0]) for seed in range(10))
    assert "sign " in text
    assert not any(hazard in text for hazard in grid.HAZARDS)


def test_view_is_smaller_at_night():
    world = grid.SurvivalGrid("meadow")
    world.reset(seed=1)
    by_day = len(grid.get_visible_tiles(world.terrain, world.body))
    world.terrain.tick = world.preset.day
    assert len(grid.get_visible_tiles(world.terrain, world.body)) < by_day


def test_bush_feeds_once_and_regrows():
    terrain = grid.make_terrain(grid.get_preset("meadow"), 1, 1)
    bush = next(cell for cell, thing in terrain.things.items() if thing == "bush")
    assert (terrain.gather(bush), terrain.gather(bush)) == ("food", None)
    terrain.beasts = []
    for _ in range(terrain.preset.regrow):
        terrain.pass_time([])
    assert terrain.gather(bush) == "food"


def test_observation_formats():
    text, _ = grid.SurvivalGrid(observations="text").reset(seed=1)
    symbols, _ = grid.SurvivalGrid(observations="symbols").reset(seed=1)
    picture, _ = grid.SurvivalGrid(observations="rgb").reset(seed=1)
    assert text.startswith("Tick 0, day")
    assert symbols["view"].shape == (7, 7)
    assert picture.shape == (56, 56, 3)
    assert picture.dtype == np.uint8


def test_unknown_worlds_and_actions_are_rejected():
    with pytest.raises(errors.SetupError, match="Use one of meadow, caldera, tundra"):
        grid.SurvivalGrid("swamp")
    with pytest.raises(errors.SetupError, match="Unknown action 9"):
        grid.SurvivalGrid().step(9)


@pytest.mark.skipif(not has_gymnasium, reason="gymnasium comes with the extra envs")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["text", "symbols", "rgb"])
def test_gymnasium_checker_passes(kind):
    checker = importlib.import_module("gymnasium.utils.env_checker")
    checker.check_env(grid.as_gymnasium(grid.SurvivalGrid("meadow", 1, kind)), skip_render_check=True)
