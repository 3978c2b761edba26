"""Slots on this machine: `ExecutorSuite` in a jail and without one."""

import pytest

from atoll import executor, sandbox
from atoll.testing import ExecutorSuite

jails = pytest.mark.skipif(
    sandbox.get_level(sandbox.probe()) != "L3",
    reason=f"needs L3: {' '.join(sandbox.describe_missing(sandbox.probe()))}",
)


@jails
class TestLocalInJail(ExecutorSuite):
    def make(self, make_job, limits, num_workers):
        return executor.LocalExecutor(sandbox.IsolatedSandbox(make_job, limits, num_workers), num_workers)


class TestLocalWithWarmWorkers(ExecutorSuite):
    def make(self, make_job, limits, num_workers):
        return executor.LocalExecutor(sandbox.ProcessSandbox(make_job, limits, num_workers), num_workers)
