"""What every gate promises."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from atoll import evaluation, gate
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.testing import claims


class GateSuite(ABC):
    """Subclass it, say how to make a gate, and every test runs on yours."""

    @abstractmethod
    def make(self) -> gate.Gate:
        """Returns the gate."""

    def test_every_decision_has_a_verdict_a_reason_and_an_author(self) -> None:
        """No proposal makes it raise, with an evaluation or (as a screen) without, and every answer is whole."""
        decide = self.make()
        for proposal in proposals():
            decision = decide(proposal)
            assert decision.verdict in ("accept", "hold", "reject"), f"on {proposal}"
            assert decision.reason.strip(), f"on {proposal}"
            assert decision.by.strip(), f"on {proposal}"

    def test_it_leaves_the_version_to_the_pool(self) -> None:
        """Only carrying a decision out makes a version."""
        decide = self.make()
        assert all(decide(proposal).version is None for proposal in proposals())

    def test_the_same_proposal_gets_the_same_decision(self) -> None:
        """It decides from the proposal alone: a step that runs again after a crash hears the same."""
        first, second = self.make(), self.make()
        before = [first(proposal) for proposal in proposals()]
        # Pair by pair: pytest takes a minute to show how two long lists differ.
        assert all(first(proposal) == was for proposal, was in zip(proposals(), before, strict=True))
        backwards = reversed(list(zip(proposals(), before, strict=True)))
        assert all(second(proposal) == was for proposal, was in backwards)

    def test_it_may_be_asked_from_several_threads_at_once(self) -> None:
        """Every worker asks the same gate."""
        decide = self.make()
        alone = [decide(proposal) for proposal in proposals()]
        assert claims.at_once(lambda _: [decide(proposal) for proposal in proposals()], 4) == [alone] * 4


def proposals() -> Iterator[gate.Proposal]:
    """Yields proposals of all kinds: good, bad, failed, not judged, with rivals that fit and that do not."""
    rivals = (
        (),
        (Evaluation(1.0, (0.0, 1.0, 2.0)),),
        (Evaluation(1.0, (0.0, 1.0, 2.0)), Evaluation(0.0, (0.0, 0.0, 0.0))),
        (Evaluation(5.0, (5.0,)),),
        (Evaluation(1.0),),
        (evaluation.failed("it did not run"),),
    )
    found = (
        None,
        Evaluation(1.0, (0.0, 1.0, 2.0)),
        Evaluation(2.0, (1.0, 2.0, 3.0)),
        Evaluation(-2.0, (-1.0, -2.0, -3.0), {"length": 3.0}, "try harder"),
        Evaluation(2.0),
        evaluation.failed("it did not run"),
    )
    kin = (Candidate("0.0", "def f(): pass"), Candidate("1.0", ""))
    for content in ("def f(): pass", "def f():  pass\n", "something new", ""):
        for each in found:
            for others in rivals:
                yield gate.Proposal(Candidate("3.0", content, ("0.0", "1.0")), each, others, kin)
