import functools
import math
from collections.abc import Iterator
from statistics import fmean

import pytest

from atoll import function, sandbox
from atoll.testing.judges import JudgeSuite
from atoll.testing.sandboxes import SandboxSuite


def call(skeleton, value):
    return skeleton(value)


class TestWorkers(SandboxSuite):
    def make(self, make_job, limits, num_workers):
        return sandbox.Workers(make_job, limits, num_workers)


class TestSandboxJudge(JudgeSuite):
    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        with sandbox.Workers(functools.partial(sandbox.Scoring, call, [1.0, 4.0], {"math": math})) as self.workers:
            yield

    def make(self):
        return sandbox.SandboxJudge(self.workers, sandbox.read_scores(fmean, partial=False))

    def good(self):
        return function.PyAstSkeleton("def f(x): return math.sqrt(x)")
