import functools
import math
from collections.abc import Iterator
from statistics import fmean

import pytest

from atoll import function, sandbox
from atoll.testing.evaluators import CandidateEvaluatorSuite
from atoll.testing.sandboxes import SandboxSuite

jails = pytest.mark.skipif(
    sandbox.get_level(sandbox.probe()) != "L3",
    reason=f"needs L3: {' '.join(sandbox.describe_missing(sandbox.probe()))}",
)


def call(skeleton, value):
    return skeleton(value)


class TestWorkers(SandboxSuite):
    def make(self, make_job, limits, num_workers):
        return sandbox.ProcessSandbox(make_job, limits, num_workers)


@jails
class TestJailL3(SandboxSuite):
    starts_programs = False
    level = "L3"

    def make(self, make_job, limits, num_workers):
        return sandbox.IsolatedSandbox(make_job, limits, num_workers, level=self.level)


@jails
@pytest.mark.slow  # the attacks are made at L2 too
class TestJailL2(TestJailL3):
    level = "L2"


@jails
@pytest.mark.slow
class TestJailL1(TestJailL3):
    level = "L1"


@jails
class TestSandboxJudgeInJail(CandidateEvaluatorSuite):
    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        with sandbox.IsolatedSandbox(
            functools.partial(sandbox.ScoreJob, call, [1.0, 4.0], {"math": math})
        ) as self.jail:
            yield

    def make(self):
        return sandbox.SandboxEvaluator(self.jail, sandbox.make_score_reader(fmean, partial=False))

    def good(self):
        return function.PyAstSkeleton("def f(x): return math.sqrt(x)")


class TestSandboxJudge(CandidateEvaluatorSuite):
    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        with sandbox.ProcessSandbox(
            functools.partial(sandbox.ScoreJob, call, [1.0, 4.0], {"math": math})
        ) as self.workers:
            yield

    def make(self):
        return sandbox.SandboxEvaluator(self.workers, sandbox.make_score_reader(fmean, partial=False))

    def good(self):
        return function.PyAstSkeleton("def f(x): return math.sqrt(x)")
