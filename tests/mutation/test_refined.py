"""Children that are tuned before they are kept."""

import re
from collections.abc import Sequence

import pytest

from atoll import evaluation, function, llm, mutation, testing
from tests.mutation.corpus import CORPUS
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax import judged_by_its_text


class TestRefined(testing.ProposerSuite):
    num_steps = 4

    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.TunedMutator(mutation.SyntaxMutator(), mutation.Tuner(budget=2, with_literals=True))

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(CORPUS["cap set"].source)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=judged_by_its_text))


class Idea:
    """Proposes a program with a bad constant, or what it is given."""

    def __init__(self, text: str = "def f(x):\n    return 4.0 * x\n") -> None:
        self.text = text

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        parent = context.parents[-1]
        return [function.derive_child(parent, function.PyAstSkeleton(self.text), parents=[parent], engine="idea")]


def judged(fns: Sequence[function.Function]) -> Sequence[evaluation.Evaluation]:
    """Scores a program by how near its factor is to 1; one without a factor fails."""
    found = [re.findall(r"return (\S+) \*", str(each.skeleton())) for each in fns]
    return [
        evaluation.Evaluation(-((float(each[0]) - 1) ** 2)) if each else evaluation.failed("no factor")
        for each in found
    ]


def test_an_idea_is_kept_with_better_constants_and_names_the_parent_of_the_idea():
    parent = fn("def f(x):\n    return x\n")
    [child] = mutation.TunedMutator(Idea()).propose(task(parent)._replace(evaluate=judged))
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
def test_an_idea_that_fails_or_has_no_number_is_returned_as_it_is(text):
    [child] = mutation.TunedMutator(Idea(text)).propose(task(fn("x = 1\n"))._replace(evaluate=judged))
    assert str(child.skeleton()) == text
    assert child.candidate is not None
    assert child.candidate.meta["trials"] == 1
