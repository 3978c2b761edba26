"""`LocalExecutor` with isolated and with warm processes."""

import pytest

from atoll import executor, sandbox
from atoll.testing import ExecutorSuite

needs_l3 = pytest.mark.skipif(
    sandbox.get_level(sandbox.probe()) != "L3",
    reason=f"needs L3: {' '.join(sandbox.describe_missing(sandbox.probe()))}",
)


@needs_l3
class TestIsolatedProcesses(ExecutorSuite):
    def make(self, make_job, limits, num_workers):
        return executor.LocalExecutor(sandbox.IsolatedSandbox(make_job, limits, num_workers), num_workers)


class TestWarmProcesses(ExecutorSuite):
    def make(self, make_job, limits, num_workers):
        return executor.LocalExecutor(sandbox.ProcessSandbox(make_job, limits, num_workers), num_workers)
