"""SurvivalGrid: worlds, bodies, views and four baseline policies."""

from atoll.survival.grid.body import ACTIONS, Body, get_visible_tiles
from atoll.survival.grid.policies import GreedyPolicy, OraclePolicy, Policy, RandomPolicy, WaitPolicy, find_path
from atoll.survival.grid.survival_grid import StepResult, SurvivalGrid, as_gymnasium, compute_reward
from atoll.survival.grid.terrain import (
    HAZARDS,
    PRESETS,
    SIGNS,
    Cell,
    Preset,
    Terrain,
    assign_meanings,
    distance,
    get_neighbors,
    get_preset,
    make_terrain,
)

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
