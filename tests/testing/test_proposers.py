"""Proposers of every kind keep the promise, and the suite notices those that do not."""

import random
import threading
from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest

from atoll import evaluation, function, llm, testing
from atoll.candidate import JSON


def number(fn: function.Function) -> float:
    return float(str(fn.skeleton()))


class Asking:
    """Asks a model twice and proposes what it says."""

    def __init__(self, model: llm.LLM) -> None:
        self._model = model

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        first = self._model(f"improve {parent.skeleton()}").text
        return [parent.clone(function.Text(self._model(f"shorten {first}").text))]


class TestAsking(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return Asking(model)


class TestAskingWithAJudgeThatAsks(testing.ProposerSuite):
    num_steps = 6

    def make(self, model: llm.LLM) -> function.Proposer:
        return Asking(model)

    def initial(self, model: llm.LLM) -> function.Function:
        def judge(skeleton: object) -> evaluation.Evaluation:
            scores = tuple(float(model(f"rate {skeleton} on input {place}").text) for place in range(2))
            return evaluation.Evaluation(sum(scores) / 2, scores)

        return function.DefaultFunction(function.DefaultFunctionProps(function.Text("0.5"), candidate_evaluator=judge))


class Rolling:
    """Makes several children, or none, of all parents, with dice of the task."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        mean = sum(map(number, context.parents)) / len(context.parents)
        texts = [repr(mean + context.rng.gauss()) for _ in range(context.rng.randrange(4))]
        return [function.derive_child(context.parents[0], function.Text(text), engine="rolling") for text in texts]


class TestRolling(testing.ProposerSuite):
    num_steps = 12

    def make(self, model: llm.LLM) -> function.Proposer:
        return Rolling()


class Tuning:
    """Judges drafts, proposes the best of them, and judges a parent again."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parent = context.parents[-1]
        drafts = [parent.clone(function.Text(repr(round(number(parent) + context.rng.gauss(), 1)))) for _ in range(3)]
        found = context.evaluate(drafts)
        best = max(range(3), key=lambda place: found[place].score or 0.0)
        context.update_evaluation(
            parent, evaluation.Evaluation(found[best].score, found[best].scores, feedback=f"in {context.iteration}")
        )
        return [drafts[best].clone(function.Text(f"{drafts[best].skeleton()}1"))]


class TestTuning(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return Tuning()


class Moody:
    """Fails now and then, after it has bought a reply; proposes what cannot be judged, and twins."""

    def __init__(self, model: llm.LLM) -> None:
        self._model = model

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        text = self._model(f"step {context.iteration}").text
        if context.iteration % 3 == 0:
            raise ValueError(f"I do not like {text}")
        return [context.parents[0].clone(function.Text(each)) for each in ("the same for all", text, "")]


class TestMoody(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return Moody(model)


class Engine:
    """An engine of the seed: one child of several functions."""

    def use_profiler(self, profiler_fn: object) -> Callable[[], None]:
        return lambda: None

    def mutate(self, fn_list: list[function.Function]) -> function.Function:
        return fn_list[0].clone(function.Text("".join(sorted("".join(str(fn.skeleton()) for fn in fn_list) + "7"))))


class TestLiftedEngine(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.MutationEngine:
        return Engine()


class Striding:
    """Walks as far as it is advised."""

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        stride = float(str(context.advice["stride"]))
        return [
            context.parents[-1].clone(function.Text(repr(number(context.parents[-1]) + context.rng.gauss(0.0, stride))))
        ]


class Bandit:
    """Learns which stride wins."""

    def __init__(self) -> None:
        self._gains = {0.1: 0.0, 1.0: 0.0, 10.0: 0.0}

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {"stride": max(self._gains, key=lambda stride: self._gains[stride] + rng.random())}

    def learn(self, result: function.IterationResult) -> None:
        best = max(map(function.get_fitness, result.parents))
        won = any(function.get_fitness(fn) > best for fn, _ in result.children)
        self._gains[float(str(result.advice["stride"]))] += 1.0 if won else -0.2


class TestStridingWithABandit(testing.ProposerSuite):
    num_steps = 12

    def make(self, model: llm.LLM) -> function.Proposer:
        return Striding()

    def learner(self) -> function.Learner:
        return Bandit()


class Bad(testing.ProposerSuite):
    """A suite on a proposer that breaks the promise; not collected, but called below."""

    def __init__(self, make: Callable[[llm.LLM], function.Proposer]) -> None:
        self._make = make

    def make(self, model: llm.LLM) -> function.Proposer:
        return self._make(model)


class GlobalDice:
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


class Judging:
    def __init__(self, model: llm.LLM) -> None: ...

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        child = context.parents[0].clone(function.Text(repr(context.rng.random())))
        child.evaluate()
        return [child]


class Silent:
    def __init__(self, model: llm.LLM) -> None: ...

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        raise OSError("no key")


@pytest.mark.parametrize(
    ("make", "test"),
    [
        (GlobalDice, "test_proposer_uses_only_its_own_rng"),
        (GlobalDice, "test_timing_and_number_of_workers_do_not_change_the_run"),
        (ByArrival, "test_resume_after_any_commit_with_one_worker"),
        (ByArrival, "test_timing_and_number_of_workers_do_not_change_the_run"),
        (ByThread, "test_timing_and_number_of_workers_do_not_change_the_run"),
        (ReturningParents, "test_children_are_unevaluated_and_parents_are_unchanged"),
        (Judging, "test_children_are_unevaluated_and_parents_are_unchanged"),
        (Silent, "test_proposer_makes_children_that_can_be_evaluated"),
    ],
)
def test_the_suite_notices_a_proposer_that_breaks_the_promise(
    make: Callable[[llm.LLM], function.Proposer], test: str
) -> None:
    with pytest.raises(AssertionError):
        getattr(Bad(make), test)()
