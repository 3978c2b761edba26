import functools
import math
from collections.abc import Iterator
from statistics import fmean

import pytest

from atoll import function, sandbox
from atoll.testing.proposers import CandidateEvaluatorSuite
from atoll.testing.sandboxes import SandboxSuite

needs_l3 = pytest.mark.skipif(
    sandbox.get_level(sandbox.probe()) != "L3",
    reason=f"needs L3: {' '.join(sandbox.describe_missing(sandbox.probe()))}",
)


def call(skeleton, run_program):
    return skeleton(run_program)


class TestProcessSandbox(SandboxSuite):
    def make(self, make_job, limits, num_workers):
        return sandbox.ProcessSandbox(make_job, limits, num_workers)


@needs_l3
class TestIsolatedSandboxL3(SandboxSuite):
    starts_programs = False
    level = "L3"

    def make(self, make_job, limits, num_workers):
        return sandbox.IsolatedSandbox(make_job, limits, num_workers, level=self.level)


@needs_l3
@pytest.mark.slow  # test_attacks.py covers L2 too
class TestIsolatedSandboxL2(TestIsolatedSandboxL3):
    level = "L2"


@needs_l3
@pytest.mark.slow
class TestIsolatedSandboxL1(TestIsolatedSandboxL3):
    level = "L1"


@needs_l3
class TestSandboxEvaluatorL3(CandidateEvaluatorSuite):
    @pytest.fixture(autouse=True)
    def _closing(self) -> Iterator[None]:
        with sandbox.IsolatedSandbox(
            functools.partial(sandbox.ScoreJob, call, [1.0, 4.0], {"math": math})
        ) as self.isolated:
            yield

    def make(self):
        return sandbox.SandboxEvaluator(self.isolated, sandbox.make_score_reader(fmean, partial=False))

    def good(self):
        return function.PyAstSkeleton("def f(x): return math.sqrt(x)")


class TestSandboxEvaluatorL0(CandidateEvaluatorSuite):
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
