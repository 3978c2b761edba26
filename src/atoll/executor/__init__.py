"""Where evaluations run, and how many at once."""

from atoll.executor.executor import SlotPool, Executor, Pending
from atoll.executor.local import LocalExecutor
from atoll.executor.place import ExecutorConfig, cpu_count
from atoll.executor.ray import RayStats, RayConfig

__all__ = ["SlotPool", "Executor", "LocalExecutor", "Pending", "ExecutorConfig", "RayStats", "RayConfig", "cpu_count"]
