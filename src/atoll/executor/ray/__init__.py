"""Evaluations on a Ray cluster; needs the extra `ray`."""

from atoll.executor.ray.actor_pool import ActorConfig
from atoll.executor.ray.config import RayConfig, RayStats
from atoll.executor.ray.slot_pool import RaySlotPool
from atoll.executor.ray.task_files import TaskFiles

__all__ = ["ActorConfig", "RayConfig", "RaySlotPool", "RayStats", "TaskFiles"]
