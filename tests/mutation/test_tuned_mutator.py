"""TunedMutator: tunes the children of another mutator."""

import re
from collections.abc import Sequence

import pytest

from atoll import evaluation, function, llm, mutation, testing
from tests.mutation.corpus import CORPUS
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax_mutator import evaluate_text


class TestTunedMutator(testing.ProposerSuite):
    num_steps = 4

    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.TunedMutator(mutation.SyntaxMutator(), mutation.Tuner(budget=2, with_literals=True))

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(CORPUS["cap set"].source)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=evaluate_text))


class FixedProposer:
    """Proposes a fixed program, by default one with a bad constant."""

    def __init__(self, text: str = "def f(x):\n    return 4.0 * x\n") -> None:
        self.text = text

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        parent = context.parents[-1]
        return [function.derive_child(parent, function.PyAstSkeleton(self.text), parents=[parent], engine="fixed")]


def evaluate(fns: Sequence[function.Function]) -> Sequence[evaluation.Evaluation]:
    """Scores a program by the distance of its factor from 1. A program without a factor fails."""
    factors = [re.findall(r"return (\S+) \*", str(fn.skeleton())) for fn in fns]
    return [
        evaluation.Evaluation(-((float(match[0]) - 1) ** 2)) if match else evaluation.failed("no factor")
        for match in factors
    ]


def test_tuned_mutator_improves_constants_of_child():
    parent = fn("def f(x):\n    return x\n")
    [child] = mutation.TunedMutator(FixedProposer()).propose(task(parent)._replace(evaluate=evaluate))
    [factor] = re.findall(r"return (\S+) \*", str(child.skeleton()))
    assert float(factor) == pytest.approx(1.0, abs=0.2)
    assert child.candidate is not None
    assert parent.candidate is not None
    assert child.candidate.parents == (parent.candidate.id,)
    assert child.candidate.content == str(child.skeleton())
    assert child.candidate.meta["engine"] == "refined"
    assert child.candidate.meta["trials"] > 1  # type: ignore[operator]
    assert child.evaluation is None


@pytest.mark.parametrize("text", ["def f(x):\n    return x\n", "def f(x):\n    return x + 3.0\n"])
def test_tuned_mutator_returns_untunable_child_unchanged(text):
    [child] = mutation.TunedMutator(FixedProposer(text)).propose(task(fn("x = 1\n"))._replace(evaluate=evaluate))
    assert str(child.skeleton()) == text
    assert child.candidate is not None
    assert child.candidate.meta["trials"] == 1
