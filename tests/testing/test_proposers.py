"""The proposer suite passes for correct proposers and detects violations."""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest

from atoll import evaluation, function, llm, testing
from atoll.candidate import JSON


def get_number(fn: function.Function) -> float:
    return float(str(fn.skeleton()))


class LLMProposer:
    """Calls the LLM twice and proposes the response."""

    def __init__(self, model: llm.LLM) -> None:
        self._model = model

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        first = self._model(f"improve {parent.skeleton()}").text
        return [parent.clone(function.Text(self._model(f"shorten {first}").text))]


class TestLLMProposer(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return LLMProposer(model)


class TestLLMProposerWithLLMEvaluator(testing.ProposerSuite):
    num_steps = 6

    def make(self, model: llm.LLM) -> function.Proposer:
        return LLMProposer(model)

    def initial(self, model: llm.LLM) -> function.Function:
        def evaluate(skeleton: object) -> evaluation.Evaluation:
            scores = tuple(float(model(f"rate {skeleton} on input {index}").text) for index in range(2))
            return evaluation.Evaluation(sum(scores) / 2, scores)

        return function.DefaultFunction(
            function.DefaultFunctionProps(function.Text("0.5"), candidate_evaluator=evaluate)
        )


class RandomProposer:
    """Makes up to three children of all parents with the generator of the context."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        mean = sum(map(get_number, context.parents)) / len(context.parents)
        texts = [repr(mean + context.rng.gauss()) for _ in range(context.rng.randrange(4))]
        return [function.derive_child(context.parents[0], function.Text(text), engine="random") for text in texts]


class TestRandomProposer(testing.ProposerSuite):
    num_steps = 12

    def make(self, model: llm.LLM) -> function.Proposer:
        return RandomProposer()


class TrialProposer:
    """Evaluates trials, proposes the best, and updates the evaluation of a parent."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        trials = [
            parent.clone(function.Text(repr(round(get_number(parent) + context.rng.gauss(), 1)))) for _ in range(3)
        ]
        evaluations = context.evaluate(trials)
        best = max(range(3), key=lambda index: evaluations[index].score or 0.0)
        context.update_evaluation(
            parent,
            evaluation.Evaluation(
                evaluations[best].score, evaluations[best].scores, feedback=f"in {context.iteration}"
            ),
        )
        return [trials[best].clone(function.Text(f"{trials[best].skeleton()}1"))]


class TestTrialProposer(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return TrialProposer()


class UnreliableProposer:
    """Sometimes fails after an LLM call; proposes duplicates and an empty text."""

    def __init__(self, model: llm.LLM) -> None:
        self._model = model

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        text = self._model(f"step {context.iteration}").text
        if context.iteration % 3 == 0:
            raise ValueError(f"rejected {text}")
        return [context.parents[0].clone(function.Text(content)) for content in ("the same for all", text, "")]


class TestUnreliableProposer(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return UnreliableProposer(model)


class Engine:
    """Mutation engine of the seed: one child of several functions."""

    def use_profiler(self, profiler_fn: object) -> Callable[[], None]:
        return lambda: None

    def mutate(self, fn_list: list[function.Function]) -> function.Function:
        return fn_list[0].clone(function.Text("".join(sorted("".join(str(fn.skeleton()) for fn in fn_list) + "7"))))


class TestMutationEngine(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.MutationEngine:
        return Engine()


class StrideProposer:
    """Uses the stride that the learner advises."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        stride = float(str(context.advice["stride"]))
        return [
            context.parents[-1].clone(
                function.Text(repr(get_number(context.parents[-1]) + context.rng.gauss(0.0, stride)))
            )
        ]


class Bandit:
    """Learns the best stride."""

    def __init__(self) -> None:
        self._gains = {0.1: 0.0, 1.0: 0.0, 10.0: 0.0}

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {"stride": max(self._gains, key=lambda stride: self._gains[stride] + rng.random())}

    def learn(self, result: function.IterationResult) -> None:
        best = max(map(function.get_fitness, result.parents))
        is_better = any(function.get_fitness(fn) > best for fn, _ in result.children)
        self._gains[float(str(result.advice["stride"]))] += 1.0 if is_better else -0.2


class TestStrideProposerWithBandit(testing.ProposerSuite):
    num_steps = 12

    def make(self, model: llm.LLM) -> function.Proposer:
        return StrideProposer()

    def learner(self) -> function.Learner:
        return Bandit()


class ViolationSuite(testing.ProposerSuite):
    """Suite for proposers with violations; called by the test below, not collected."""

    def __init__(self, make: Callable[[llm.LLM], function.Proposer]) -> None:
        self._make = make

    def make(self, model: llm.LLM) -> function.Proposer:
        return self._make(model)


class GlobalRandom:
    def __init__(self, model: llm.LLM) -> None: ...

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        return [context.parents[0].clone(function.Text(repr(random.random())))]


class ByArrival:
    def __init__(self, model: llm.LLM) -> None:
        self._count = 0

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        self._count += 1
        return [context.parents[0].clone(function.Text(repr(self._count)))]


class ByThread:
    def __init__(self, model: llm.LLM) -> None: ...

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        return [context.parents[0].clone(function.Text(threading.current_thread().name))]


class ReturningParents:
    def __init__(self, model: llm.LLM) -> None: ...

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        return [context.parents[0]]


class EvaluatingChildren:
    def __init__(self, model: llm.LLM) -> None: ...

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        child = context.parents[0].clone(function.Text(repr(context.rng.random())))
        child.evaluate()
        return [child]


class Failing:
    def __init__(self, model: llm.LLM) -> None: ...

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        raise OSError("no key")


@pytest.mark.parametrize(
    ("make", "test"),
    [
        (GlobalRandom, "test_proposer_uses_only_its_own_rng"),
        (GlobalRandom, "test_timing_and_number_of_workers_do_not_change_the_run"),
        (ByArrival, "test_resume_after_any_commit_with_one_worker"),
        (ByArrival, "test_timing_and_number_of_workers_do_not_change_the_run"),
        (ByThread, "test_timing_and_number_of_workers_do_not_change_the_run"),
        (ReturningParents, "test_children_are_unevaluated_and_parents_are_unchanged"),
        (EvaluatingChildren, "test_children_are_unevaluated_and_parents_are_unchanged"),
        (Failing, "test_proposer_makes_children_that_can_be_evaluated"),
    ],
)
def test_suite_detects_violation(make: Callable[[llm.LLM], function.Proposer], test: str) -> None:
    with pytest.raises(AssertionError):
        getattr(ViolationSuite(make), test)()
