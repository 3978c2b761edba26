"""Test tools for Atoll and your extensions: fakes, and a test suite for each protocol.

    class TestMyCluster(testing.ListableClusterSuite):
        def make(self) -> MyCluster:
            return MyCluster(rng=Random(0))

The suites use plain asserts and do not need pytest. With pytest, put
`pytest.register_assert_rewrite("atoll.testing")` into your `conftest.py` for better failure messages.
"""

from atoll.testing.channels import FeedbackChannelSuite
from atoll.testing.clusters import ClusterSuite, ListableClusterSuite
from atoll.testing.evaluators import CandidateEvaluatorSuite
from atoll.testing.executors import ExecutorSuite
from atoll.testing.fakes import (
    FailingJournal,
    FakeClock,
    RandomDelays,
    get_comparable_records,
    make_evaluated_function,
    make_failed_function,
)
from atoll.testing.gates import GateSuite
from atoll.testing.inboxes import InboxSuite
from atoll.testing.journals import JournalSuite
from atoll.testing.llms import LLMSuite
from atoll.testing.logs import LogSourceSuite
from atoll.testing.parameters import ParameterStoreContract
from atoll.testing.populations import PopulationSuite
from atoll.testing.proposers import ProposerSuite
from atoll.testing.sandboxes import SandboxSuite
from atoll.testing.scripted_llm import CallPosition, ScriptedLLM
from atoll.testing.selectors import SelectorSuite
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
