"""SurvivalGrid: worlds, bodies, views and four baseline policies."""

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
    "Cell",
    "GreedyPolicy",
    "OraclePolicy",
    "Policy",
    "Preset",
    "RandomPolicy",
    "StepResult",
    "SurvivalGrid",
    "Terrain",
    "WaitPolicy",
    "as_gymnasium",
    "assign_meanings",
    "compute_reward",
    "distance",
    "find_path",
    "get_neighbors",
    "get_preset",
    "get_visible_tiles",
    "make_terrain",
]
