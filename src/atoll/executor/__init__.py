"""Executors run evaluations in parallel slots, on this machine or on a Ray cluster."""

from atoll.executor.executor import Executor, ExecutorConfig, LocalExecutor, SlotPool, cpu_count
from atoll.executor.ray import RayConfig, RayStats

__all__ = ["Executor", "ExecutorConfig", "LocalExecutor", "RayConfig", "RayStats", "SlotPool", "cpu_count"]
