"""Test tools for Atoll and your extensions: fakes, and a test suite for each protocol.

    class TestMyCluster(testing.ListableClusterSuite):
        def make(self) -> MyCluster:
            return MyCluster(rng=Random(0))

The suites use plain asserts and do not need pytest. With pytest, put
`pytest.register_assert_rewrite("atoll.testing")` into your `conftest.py` for better failure messages.
"""

from atoll.testing.clusters import ClusterSuite, ListableClusterSuite, SelectorSuite
from atoll.testing.fakes import (
    FailingJournal,
    FakeClock,
    RandomDelays,
    get_comparable_records,
    make_evaluated_function,
    make_failed_function,
)
from atoll.testing.journals import InboxSuite, JournalSuite
from atoll.testing.llms import CallPosition, LLMSuite, ScriptedLLM
from atoll.testing.logs import FeedbackChannelSuite, LogSourceSuite
from atoll.testing.parameters import ParameterStoreContract
from atoll.testing.populations import PopulationSuite
from atoll.testing.proposers import CandidateEvaluatorSuite, GateSuite, ProposerSuite
from atoll.testing.sandboxes import ExecutorSuite, SandboxSuite
from atoll.testing.server import Fault, ModelServer
from atoll.testing.versions import VersionsSuite
from atoll.testing.worlds import WorldSuite

__all__ = [
    "CallPosition",
    "CandidateEvaluatorSuite",
    "ClusterSuite",
    "ExecutorSuite",
    "FailingJournal",
    "FakeClock",
    "Fault",
    "FeedbackChannelSuite",
    "GateSuite",
    "InboxSuite",
    "JournalSuite",
    "LLMSuite",
    "ListableClusterSuite",
    "LogSourceSuite",
    "ModelServer",
    "ParameterStoreContract",
    "PopulationSuite",
    "ProposerSuite",
    "RandomDelays",
    "SandboxSuite",
    "ScriptedLLM",
    "SelectorSuite",
    "VersionsSuite",
    "WorldSuite",
    "get_comparable_records",
    "make_evaluated_function",
    "make_failed_function",
]
