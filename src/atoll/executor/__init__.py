"""Where evaluations run, and how many at once."""

from atoll.executor.executor import Executor, ExecutorConfig, LocalExecutor, Pending, SlotPool, cpu_count
from atoll.executor.ray import RayConfig, RayStats

__all__ = ["Executor", "ExecutorConfig", "LocalExecutor", "Pending", "RayConfig", "RayStats", "SlotPool", "cpu_count"]
