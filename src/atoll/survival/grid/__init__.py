"""SurvivalGrid: worlds, bodies, views, and four policies to measure an agent against."""

from atoll.survival.grid.body import ACTIONS, Body
from atoll.survival.grid.policies import Ceiling, Dice, Greedy, Policy, Wait, route
from atoll.survival.grid.presets import HAZARDS, PRESETS, SIGNS, Preset, find, meanings
from atoll.survival.grid.spaces import as_gymnasium
from atoll.survival.grid.survivalgrid import Step, SurvivalGrid, reward_of
from atoll.survival.grid.terrain import Spot, Terrain, around, distance, make_terrain
from atoll.survival.grid.views import visible

__all__ = [
    "ACTIONS",
    "HAZARDS",
    "PRESETS",
    "SIGNS",
    "Body",
    "Ceiling",
    "Dice",
    "Greedy",
    "Policy",
    "Preset",
    "Spot",
    "Step",
    "SurvivalGrid",
    "Terrain",
    "Wait",
    "around",
    "as_gymnasium",
    "distance",
    "find",
    "make_terrain",
    "meanings",
    "reward_of",
    "route",
    "visible",
]
