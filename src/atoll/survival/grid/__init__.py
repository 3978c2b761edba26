"""SurvivalGrid: worlds, bodies, views, and four policies to measure an agent against."""

from atoll.survival.grid.body import ACTIONS, Body
from atoll.survival.grid.policies import GreedyPolicy, OraclePolicy, Policy, RandomPolicy, WaitPolicy, find_path
from atoll.survival.grid.presets import HAZARDS, PRESETS, SIGNS, Preset, assign_meanings, get_preset
from atoll.survival.grid.survival_grid import StepResult, SurvivalGrid, as_gymnasium, compute_reward
from atoll.survival.grid.terrain import Cell, Terrain, distance, get_neighbors, make_terrain
from atoll.survival.grid.views import get_visible_tiles

__all__ = [
    "ACTIONS",
    "HAZARDS",
    "PRESETS",
    "SIGNS",
    "Body",
    "OraclePolicy",
    "RandomPolicy",
    "GreedyPolicy",
    "Policy",
    "Preset",
    "Cell",
    "StepResult",
    "SurvivalGrid",
    "Terrain",
    "WaitPolicy",
    "get_neighbors",
    "as_gymnasium",
    "distance",
    "get_preset",
    "make_terrain",
    "assign_meanings",
    "compute_reward",
    "find_path",
    "get_visible_tiles",
]
