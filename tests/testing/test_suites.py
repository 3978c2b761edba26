"""The suites detect violations and do not need pytest."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from atoll import archipelago, cluster, control, evaluation, function, gate, journal, testing, versions
from atoll.evaluation import Evaluation
from atoll.gate import Decision
from atoll.journal import Record
from atoll.store import memory
from atoll.testing import fakes
from atoll.versions import Version


def test_import_does_not_load_pytest() -> None:
    code = "import sys, atoll.testing; sys.exit('pytest' in sys.modules or 'hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_all_suites_are_exported() -> None:
    suites = {name for name in vars(testing) if name.endswith("Suite")}
    assert suites < set(testing.__all__)
    assert all(hasattr(testing, name) for name in testing.__all__)


@pytest.mark.parametrize(
    "suite",
    [suite for name, suite in vars(testing).items() if name.endswith("Suite")],
    ids=lambda suite: suite.__name__,
)
def test_suite_tests_have_descriptive_names_and_docstrings(suite: type) -> None:
    tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 4
    assert suite.__doc__
    assert all(test.__doc__ and test.__name__.count("_") >= 3 for test in tests)


class LastCluster(cluster.DefaultCluster):
    """Returns the last function as the best."""

    def best_fn(self) -> function.Function:
        super().best_fn()
        return self.members()[-1]


class LastClusterSuite(testing.ListableClusterSuite):
    def make(self) -> cluster.ListableCluster:
        return LastCluster(Random(0))


class UnseededCluster(cluster.EliteCluster):
    """Ignores the seed."""

    def select_fn(self) -> function.Function:
        self._rng.seed()
        return super().select_fn()


class UnseededClusterSuite(testing.ListableClusterSuite):
    def make(self) -> cluster.ListableCluster:
        return UnseededCluster(Random(0), ties=True)


class LinearSelector(cluster.RankSelector):
    """Reads all clusters for each selection."""

    def select(self, k: int, registered: int) -> Sequence[int]:
        assert all(self._ranking.get_at_rank(rank) for rank in range(0, len(self._ranking), 64))
        return super().select(k, registered)


class LinearSelectorSuite(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return LinearSelector(rng)


class ShrinkingPopulation(cluster.NichedPopulation):
    """Drops all other members on an update."""

    def update_evaluation(self, fn: function.Function) -> None:
        self._rebuild([fn])


class ShrinkingPopulationSuite(testing.PopulationSuite):
    def make(self, rng: Random) -> archipelago.Population:
        return ShrinkingPopulation(
            cluster.by_signature, lambda key: cluster.DefaultCluster(rng), cluster.RankSelector(rng)
        )


class RaisingGateSuite(testing.GateSuite):
    def make(self) -> gate.Gate:
        def decide(proposal: gate.Proposal) -> Decision:
            assert proposal.evaluation is not None
            return Decision("accept", "it was evaluated", "test")

        return decide


class RandomGateSuite(testing.GateSuite):
    def make(self) -> gate.Gate:
        rng = Random(0)
        return lambda proposal: Decision(rng.choice(["accept", "reject"]), "random", "test")


class NonAtomicJournal(memory.MemoryJournal):
    """Stores records one by one."""

    def write(self, *records: Record) -> None:
        for record in records:
            super().write(record)
            time.sleep(0.0005)


class NonAtomicJournalSuite(testing.JournalSuite):
    def make(self) -> journal.Journal:
        return NonAtomicJournal()


class ReversedJournal(memory.MemoryJournal):
    def read(self, island: int | None = None) -> Iterator[Record]:
        return iter(list(super().read(island))[::-1])


class ReversedJournalSuite(testing.JournalSuite):
    def make(self) -> journal.Journal:
        return ReversedJournal()


class Overwriting(memory.MemoryVersions):
    """Ignores the expected version."""

    def set(self, *args: Any, expected: int | None = None, token: str | None = None) -> Version:
        return super().set(*args, expected=None, token=token)


class OverwritingSuite(testing.VersionsSuite):
    def make(self) -> versions.Versions:
        return Overwriting()


class RaisingEvaluatorSuite(testing.CandidateEvaluatorSuite):
    def make(self) -> function.CandidateEvaluator:
        return lambda skeleton: evaluation.validate(skeleton(1.0))

    def good(self) -> function.Skeleton[..., Any]:
        return function.PyAstSkeleton("def f(x): return x")


class NaNEvaluatorSuite(testing.CandidateEvaluatorSuite):
    def make(self) -> function.CandidateEvaluator:
        return lambda skeleton: Evaluation(float("nan"))

    def good(self) -> function.Skeleton[..., Any]:
        return function.Text("anything")


class EmptyingInbox(memory.MemoryInbox):
    """Deletes commands when they are read."""

    def read(self, after: int) -> Sequence[control.Command]:
        commands = super().read(after)
        self._commands.clear()
        return commands


class EmptyingInboxSuite(testing.InboxSuite[EmptyingInbox]):
    def make(self) -> EmptyingInbox:
        return EmptyingInbox()

    def post(self, inbox: EmptyingInbox, kind: control.CommandKind, **data: Any) -> None:
        inbox.post(kind, **data)


@pytest.mark.parametrize(
    ("suite", "test"),
    [
        (LastClusterSuite, "test_best_function_is_never_lost"),
        (UnseededClusterSuite, "test_same_seed_selects_the_same"),
        (LinearSelectorSuite, "test_cost_does_not_grow_with_number_of_clusters"),
        (ShrinkingPopulationSuite, "test_updated_evaluation_keeps_best_function"),
        (ShrinkingPopulationSuite, "test_update_of_unknown_function_is_refused"),
        (RaisingGateSuite, "test_decision_has_verdict_reason_and_author"),
        (RandomGateSuite, "test_same_proposal_gets_same_decision"),
        (NonAtomicJournalSuite, "test_concurrent_commits_do_not_mix"),
        (ReversedJournalSuite, "test_records_are_read_in_write_order"),
        (OverwritingSuite, "test_unexpected_version_is_a_conflict"),
        (RaisingEvaluatorSuite, "test_bad_candidate_gets_failure"),
        (NaNEvaluatorSuite, "test_good_candidate_gets_score"),
        (EmptyingInboxSuite, "test_read_removes_nothing"),
    ],
)
def test_suite_detects_violation(suite: Any, test: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, IndexError, SystemExit)):
        getattr(suite(), test)()


def test_raises_fails_without_exception() -> None:
    with pytest.raises(AssertionError, match="ValueError was not raised"), fakes.raises(ValueError):
        pass
    with fakes.raises(ValueError) as caught:
        raise ValueError("as expected")
    assert str(caught[0]) == "as expected"
