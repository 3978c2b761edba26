"""The suites notice who breaks a contract, and need no pytest."""

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
from atoll.testing import assertions
from atoll.versions import Version


def test_importing_the_suites_imports_no_pytest() -> None:
    code = "import sys, atoll.testing; sys.exit('pytest' in sys.modules or 'hypothesis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_everything_public_is_exported() -> None:
    suites = {name for name in vars(testing) if name.endswith("Suite")}
    assert suites < set(testing.__all__)
    assert all(hasattr(testing, name) for name in testing.__all__)


@pytest.mark.parametrize(
    "suite", [each for name, each in vars(testing).items() if name.endswith("Suite")], ids=lambda suite: suite.__name__
)
def test_every_test_of_a_suite_is_a_sentence_with_a_contract(suite: type) -> None:
    tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
    assert len(tests) >= 4
    assert suite.__doc__
    assert all(test.__doc__ and test.__name__.count("_") >= 3 for test in tests)


class Losing(cluster.DefaultCluster):
    """Forgets its best when it grows."""

    def best_fn(self) -> function.Function:
        super().best_fn()
        return self.members()[-1]


class LosingSuite(testing.ListableClusterSuite):
    def make(self) -> cluster.ListableCluster:
        return Losing(Random(0))


class Dicing(cluster.EliteCluster):
    """Draws from no seed."""

    def select_fn(self) -> function.Function:
        self._rng.seed()
        return super().select_fn()


class DicingSuite(testing.ListableClusterSuite):
    def make(self) -> cluster.ListableCluster:
        return Dicing(Random(0), ties=True)


class Scanning(cluster.RankSelector):
    """Touches all clusters."""

    def select(self, k: int, registered: int) -> Sequence[int]:
        assert all(self._ranking.get_at_rank(rank) for rank in range(0, len(self._ranking), 64))
        return super().select(k, registered)


class ScanningSuite(testing.SelectorSuite):
    def make(self, rng: Random) -> cluster.Selector:
        return Scanning(rng)


class Shrinking(cluster.NichedPopulation):
    """Forgets everybody when one is observed."""

    def update_evaluation(self, fn: function.Function) -> None:
        self._rebuild([fn])


class ShrinkingSuite(testing.PopulationSuite):
    def make(self, rng: Random) -> archipelago.Population:
        return Shrinking(cluster.by_signature, lambda key: cluster.DefaultCluster(rng), cluster.RankSelector(rng))


class RaisingGateSuite(testing.GateSuite):
    def make(self) -> gate.Gate:
        def decide(proposal: gate.Proposal) -> Decision:
            assert proposal.evaluation is not None
            return Decision("accept", "it was judged", "test")

        return decide


class MoodyGateSuite(testing.GateSuite):
    def make(self) -> gate.Gate:
        rng = Random(0)
        return lambda proposal: Decision(rng.choice(["accept", "reject"]), "a feeling", "test")


class Half(memory.MemoryJournal):
    """Stores records one by one."""

    def write(self, *records: Record) -> None:
        for record in records:
            super().write(record)
            time.sleep(0.0005)


class HalfSuite(testing.JournalSuite):
    def make(self) -> journal.Journal:
        return Half()


class Backward(memory.MemoryJournal):
    def read(self, island: int | None = None) -> Iterator[Record]:
        return iter(list(super().read(island))[::-1])


class BackwardSuite(testing.JournalSuite):
    def make(self) -> journal.Journal:
        return Backward()


class Overwriting(memory.MemoryVersions):
    """Ignores what a change was based on."""

    def set(self, *args: Any, expected: int | None = None, token: str | None = None) -> Version:
        return super().set(*args, expected=None, token=token)


class OverwritingSuite(testing.VersionsSuite):
    def make(self) -> versions.Versions:
        return Overwriting()


class RaisingJudgeSuite(testing.CandidateEvaluatorSuite):
    def make(self) -> function.CandidateEvaluator:
        return lambda skeleton: evaluation.validate(skeleton(1.0))

    def good(self) -> function.Skeleton[..., Any]:
        return function.PyAstSkeleton("def f(x): return x")


class BlindJudgeSuite(testing.CandidateEvaluatorSuite):
    def make(self) -> function.CandidateEvaluator:
        return lambda skeleton: Evaluation(float("nan"))

    def good(self) -> function.Skeleton[..., Any]:
        return function.Text("anything")


class Emptied(memory.MemoryInbox):
    """Forgets what was read."""

    def read(self, after: int) -> Sequence[control.Command]:
        found = super().read(after)
        self._commands.clear()
        return found


class EmptiedSuite(testing.InboxSuite[Emptied]):
    def make(self) -> Emptied:
        return Emptied()

    def post(self, inbox: Emptied, kind: control.CommandKind, **data: Any) -> None:
        inbox.post(kind, **data)


@pytest.mark.parametrize(
    ("suite", "test"),
    [
        (LosingSuite, "test_best_function_is_never_lost"),
        (DicingSuite, "test_same_seed_selects_the_same"),
        (ScanningSuite, "test_cost_does_not_grow_with_number_of_clusters"),
        (ShrinkingSuite, "test_updated_evaluation_keeps_best_function"),
        (ShrinkingSuite, "test_update_of_unknown_function_is_refused"),
        (RaisingGateSuite, "test_decision_has_verdict_reason_and_author"),
        (MoodyGateSuite, "test_same_proposal_gets_same_decision"),
        (HalfSuite, "test_concurrent_commits_do_not_mix"),
        (BackwardSuite, "test_records_are_read_in_write_order"),
        (OverwritingSuite, "test_unexpected_version_is_a_conflict"),
        (RaisingJudgeSuite, "test_bad_candidate_gets_failure"),
        (BlindJudgeSuite, "test_good_candidate_gets_score"),
        (EmptiedSuite, "test_read_removes_nothing"),
    ],
)
def test_a_suite_notices_who_breaks_the_contract(suite: Any, test: str) -> None:
    with pytest.raises((AssertionError, RuntimeError, IndexError, SystemExit)):
        getattr(suite(), test)()


def test_a_claim_that_something_raises_fails_if_nothing_does() -> None:
    with pytest.raises(AssertionError, match="ValueError was not raised"), assertions.raises(ValueError):
        pass
    with assertions.raises(ValueError) as caught:
        raise ValueError("as expected")
    assert str(caught[0]) == "as expected"
