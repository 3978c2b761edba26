"""Test suite for gates."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from atoll import evaluation, gate
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.testing import assertions


class GateSuite(ABC):
    """Tests for a gate. Subclass it and implement `make`."""

    @abstractmethod
    def make(self) -> gate.Gate:
        """Returns the gate."""

    def test_decision_has_verdict_reason_and_author(self) -> None:
        """No proposal raises, with or without an evaluation, and every decision is complete."""
        decide = self.make()
        for proposal in generate_proposals():
            decision = decide(proposal)
            assert decision.verdict in ("accept", "hold", "reject"), f"on {proposal}"
            assert decision.reason.strip(), f"on {proposal}"
            assert decision.decided_by.strip(), f"on {proposal}"

    def test_decision_has_no_version(self) -> None:
        """Versions are created only when a decision is applied."""
        decide = self.make()
        assert all(decide(proposal).version is None for proposal in generate_proposals())

    def test_same_proposal_gets_same_decision(self) -> None:
        """The decision depends only on the proposal, so a repeated iteration gets the same one."""
        first, second = self.make(), self.make()
        first_decisions = [first(proposal) for proposal in generate_proposals()]
        # Compared in pairs: pytest takes a minute to show how two long lists differ.
        pairs = list(zip(generate_proposals(), first_decisions, strict=True))
        assert all(first(proposal) == decision for proposal, decision in pairs)
        assert all(second(proposal) == decision for proposal, decision in reversed(pairs))

    def test_gate_is_thread_safe(self) -> None:
        """All workers share one gate."""
        decide, proposals = self.make(), list(generate_proposals())
        expected = list(map(decide, proposals))
        assert assertions.run_concurrently(lambda _: list(map(decide, proposals)), 4) == [expected] * 4


def generate_proposals() -> Iterator[gate.Proposal]:
    """Yields good, bad, failed and unevaluated proposals, with comparable and other parents."""
    parent_evaluations = (
        (),
        (Evaluation(1.0, (0.0, 1.0, 2.0)),),
        (Evaluation(1.0, (0.0, 1.0, 2.0)), Evaluation(0.0, (0.0, 0.0, 0.0))),
        (Evaluation(5.0, (5.0,)),),
        (Evaluation(1.0),),
        (evaluation.failed("it did not run"),),
    )
    evaluations = (
        None,
        Evaluation(1.0, (0.0, 1.0, 2.0)),
        Evaluation(2.0, (1.0, 2.0, 3.0)),
        Evaluation(-2.0, (-1.0, -2.0, -3.0), {"length": 3.0}, "try harder"),
        Evaluation(2.0),
        evaluation.failed("it did not run"),
    )
    known_candidates = (Candidate("0.0", "def f(): pass"), Candidate("1.0", ""))
    for content in ("def f(): pass", "def f():  pass\n", "something new", ""):
        for result in evaluations:
            for parents in parent_evaluations:
                yield gate.Proposal(Candidate("3.0", content, ("0.0", "1.0")), result, parents, known_candidates)
