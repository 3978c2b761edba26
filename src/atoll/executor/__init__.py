"""Where evaluations run, and how many at once."""

from atoll.executor.executor import Executor, ExecutorConfig, LocalExecutor, Pending, SlotPool, cpu_count
from atoll.executor.ray import RayConfig, RayStats

__all__ = ["SlotPool", "Executor", "LocalExecutor", "Pending", "ExecutorConfig", "RayStats", "RayConfig", "cpu_count"]
