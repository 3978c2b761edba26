"""TunedMutator and ChildTuner: tune the children of another mutator."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

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


def propose_tuned(text: str, parent_score: float, seconds: float = 0.0, **limits: Any) -> list[function.Function]:
    """Lets `ChildTuner` change a program whose best factor is 1. The best score is 0."""
    cost = evaluation.Cost(seconds=seconds)

    def measure(fns: Sequence[function.Function]) -> Sequence[evaluation.Evaluation]:
        return [replace(result, cost=cost) for result in evaluate(fns)]

    context = task(fn("def f(x):\n    return x\n", parent_score))._replace(evaluate=measure, **limits)
    return list(mutation.ChildTuner.timed(FixedProposer(text)).propose(context))


def test_new_best_is_followed_by_its_tuned_version():
    child, tuned = propose_tuned("def f(x):\n    return 4.0 * x\n", parent_score=-20.0)
    assert "4.0" in str(child.skeleton())
    assert tuned.candidate is not None
    assert (tuned.candidate.meta["engine"], tuned.candidate.meta["from_score"]) == ("tuner", -9.0)


def test_other_child_is_replaced_by_its_tuned_version():
    [tuned] = propose_tuned("def f(x):\n    return 4.0 * x\n", parent_score=-1.0)
    [factor] = re.findall(r"return (\S+) \*", str(tuned.skeleton()))
    assert -((float(factor) - 1) ** 2) > -1.0
    assert tuned.candidate is not None
    assert tuned.candidate.content == str(tuned.skeleton())
    assert (tuned.candidate.meta["engine"], tuned.candidate.meta["untuned_score"]) == ("fixed", -9.0)
    assert str(tuned.candidate.meta["change"]).splitlines()[1:] == ["- return x", f"+ return {factor} * x"]


@pytest.mark.parametrize("limits", [{"max_evaluations": 100}, {"seconds": 2.0}])
def test_other_child_is_not_tuned_with_few_or_slow_evaluations(limits):
    [child] = propose_tuned("def f(x):\n    return 4.0 * x\n", parent_score=-1.0, **limits)
    assert "4.0" in str(child.skeleton())


def test_child_without_an_expression_is_not_lost():
    text = 'def f(x):\n    """Returns nothing."""\n'
    context = task(fn("def f(x):\n    return x\n", -1.0))
    context = context._replace(evaluate=lambda fns: [evaluation.Evaluation(0.5) for _ in fns])
    [child] = mutation.ChildTuner.timed(FixedProposer(text)).propose(context)
    assert str(child.skeleton()) == text


def test_child_that_stays_far_behind_gets_few_trials():
    trials = list[str]()

    def measure(fns: Sequence[function.Function]) -> Sequence[evaluation.Evaluation]:
        trials.extend(str(fn.skeleton()) for fn in fns)
        return [evaluation.Evaluation(-100.0 - 0.001 * len(trials)) for _ in fns]

    text = "def f(x):\n    return " + " + ".join(f"{number}.5 * x" for number in range(1, 11)) + "\n"
    context = task(fn("def f(x):\n    return x\n", 0.0))._replace(evaluate=measure)
    [child] = mutation.ChildTuner.timed(FixedProposer(text)).propose(context)
    assert str(child.skeleton()) == text
    assert len(trials) == 13  # the child and its first twelve trials
