"""Evaluations on the nodes of a Ray cluster: the extra `ray`."""

from atoll.executor.ray.fleet import RaySlotPool
from atoll.executor.ray.luggage import TaskFiles
from atoll.executor.ray.seat import ActorConfig
from atoll.executor.ray.tally import RayStats
from atoll.executor.ray.terms import RayConfig

__all__ = ["RaySlotPool", "TaskFiles", "ActorConfig", "RayStats", "RayConfig"]
