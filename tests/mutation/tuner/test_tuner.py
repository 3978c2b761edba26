"""Tuner: one iteration, one tuned child."""

import ast
import re

import pytest

from atoll import cluster, control, errors, evaluation, function, llm, mutation, testing
from atoll.mutation.tuner import find_tunables
from tests.mutation.tasks import fn, task

SOURCE = "def f(x):\n    a = 0.9  # tunable: 0..1\n    b = 0.9  # tunable: 0..1\n    return a * x + b\n"


def closeness(skeleton: object) -> evaluation.Evaluation:
    """Scores a source by the distance of its tunables from 0.3."""
    numbers = [float(text) for text in re.findall(r"= (\S+)  # tunable", str(skeleton))]
    score = -sum((number - 0.3) ** 2 for number in numbers)
    return evaluation.Evaluation(score, (score,))


def make_evaluated_context(
    parent: function.Function, seed: int = 0, max_evaluations: int | None = None
) -> tuple[function.ProposalContext, list[str]]:
    trials: list[str] = []

    def evaluate(fns):
        trials.extend(str(fn.skeleton()) for fn in fns)
        return [closeness(fn.skeleton()) for fn in fns]

    return task(parent, seed=seed)._replace(evaluate=evaluate, max_evaluations=max_evaluations), trials


class TestTuner(testing.ProposerSuite):
    num_steps = 4

    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.Tuner(budget=3)

    def initial(self, model: llm.LLM) -> function.Function:
        return function.DefaultFunction(
            function.DefaultFunctionProps(function.PyAstSkeleton(SOURCE), candidate_evaluator=closeness)
        )


def test_tuner_child_has_best_constants_and_parent():
    parent = fn(SOURCE, -0.72)
    context, trials = make_evaluated_context(parent)
    [child] = mutation.Tuner(budget=30).propose(context)
    values = [item.start for item in find_tunables(str(child.skeleton())).tunables]
    assert values == pytest.approx([0.3, 0.3], abs=0.02)
    assert child.candidate is not None
    assert parent.candidate is not None
    assert child.candidate.parents == (parent.candidate.id,)
    assert child.candidate.meta["engine"] == "tuner"
    assert child.candidate.meta["trials"] == len(trials) <= 30


def test_tuner_changes_only_constants():
    context, trials = make_evaluated_context(fn(SOURCE, -0.72))
    mutation.Tuner().propose(context)
    shapes = {ast.dump(ast.parse(re.sub(r"= \S+ ", "= 0 ", text))) for text in trials}
    assert len(shapes) == 1


def test_tuner_respects_max_evaluations():
    context, trials = make_evaluated_context(fn(SOURCE, -0.72), max_evaluations=5)
    mutation.Tuner(budget=30).propose(context)
    assert len(trials) == 5


def test_tuner_without_improvement_gives_no_child():
    context, trials = make_evaluated_context(fn(SOURCE.replace("0.9", "0.3"), 0.0))
    assert mutation.Tuner(budget=40, patience=4).propose(context) == []
    assert len(trials) < 10


def test_tuner_tunes_literals():
    source = "def f(x):\n    return 4.0 * x\n"
    context = task(fn(source, -16.0))._replace(evaluate=lambda fns: [_evaluate_factor(fn) for fn in fns])
    [child] = mutation.Tuner(with_literals=True, budget=25).propose(context)
    [factor] = re.findall(r"return (\S+) \*", str(child.skeleton()))
    assert float(factor) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("source", ["def f(x):\n    return x\n", "SELECT 1;", SOURCE.replace("0..1", "1..0")])
def test_tuner_without_tunables_is_not_applicable(source):
    with pytest.raises(ValueError, match=r"\w"):
        mutation.Tuner().propose(task(fn(source)))


@pytest.mark.parametrize("options", [{"budget": 0}, {"patience": 0}, {"max_literals": 0}])
def test_invalid_options_are_rejected(options):
    with pytest.raises(errors.SetupError, match="at least 1"):
        mutation.Tuner(**options)


def test_trials_count_in_budget():
    initial = function.DefaultFunction(
        function.DefaultFunctionProps(function.PyAstSkeleton(SOURCE), candidate_evaluator=closeness)
    )
    config = cluster.EvolverConfig(
        cluster.IslandConfig(1, 1, initial, mutation.Tuner()),
        schedule=cluster.RoundRobin(1),
        budget=control.Budget(evaluations=25),
        ordered=True,
    )
    evolver = cluster.Evolver(config)
    evolver.run()
    assert evolver.usage.evaluations == 25


def _evaluate_factor(fn: function.Function) -> evaluation.Evaluation:
    [factor] = re.findall(r"return (\S+) \*", str(fn.skeleton()))
    return evaluation.Evaluation(-((float(factor) - 1.0) ** 2))
