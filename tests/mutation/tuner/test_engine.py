"""The engine: one step, one tuned child."""

import ast
import re

import pytest

from atoll import cluster, control, errors, evaluation, function, llm, mutation, testing
from atoll.mutation.tuner import find_tunables
from tests.mutation.tasks import fn, task

SOURCE = "def f(x):\n    a = 0.9  # tunable: 0..1\n    b = 0.9  # tunable: 0..1\n    return a * x + b\n"


def closeness(skeleton: object) -> evaluation.Evaluation:
    """Scores a source by how near its numbers are to 0.3, wherever they stand."""
    numbers = [float(each) for each in re.findall(r"= (\S+)  # tunable", str(skeleton))]
    score = -sum((each - 0.3) ** 2 for each in numbers)
    return evaluation.Evaluation(score, (score,))


def judged_task(
    parent: function.Function, seed: int = 0, allowance: int | None = None
) -> tuple[function.ProposalContext, list[str]]:
    drafts: list[str] = []

    def judge(fns):
        drafts.extend(str(each.skeleton()) for each in fns)
        return [closeness(each.skeleton()) for each in fns]

    return task(parent, seed=seed)._replace(evaluate=judge, max_evaluations=allowance), drafts


class TestTuner(testing.ProposerSuite):
    num_steps = 4

    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.Tuner(budget=3)

    def initial(self, model: llm.LLM) -> function.Function:
        return function.DefaultFunction(
            function.DefaultFunctionProps(function.PyAstSkeleton(SOURCE), candidate_evaluator=closeness)
        )


def test_the_child_holds_the_constants_that_were_found_and_records_its_parent():
    parent = fn(SOURCE, -0.72)
    given, drafts = judged_task(parent)
    [child] = mutation.Tuner(budget=30).propose(given)
    values = [each.start for each in find_tunables(str(child.skeleton())).tunables]
    assert values == pytest.approx([0.3, 0.3], abs=0.02)
    assert child.candidate is not None
    assert parent.candidate is not None
    assert child.candidate.parents == (parent.candidate.id,)
    assert child.candidate.meta["engine"] == "tuner"
    assert child.candidate.meta["trials"] == len(drafts) <= 30


def test_all_but_the_constants_stays():
    given, drafts = judged_task(fn(SOURCE, -0.72))
    mutation.Tuner().propose(given)
    shapes = {ast.dump(ast.parse(re.sub(r"= \S+ ", "= 0 ", each))) for each in drafts}
    assert len(shapes) == 1


def test_a_step_takes_no_more_evaluations_than_it_was_promised():
    given, drafts = judged_task(fn(SOURCE, -0.72), allowance=5)
    mutation.Tuner(budget=30).propose(given)
    assert len(drafts) == 5


def test_constants_that_cannot_be_bettered_give_no_child():
    given, drafts = judged_task(fn(SOURCE.replace("0.9", "0.3"), 0.0))
    assert mutation.Tuner(budget=40, patience=4).propose(given) == []
    assert len(drafts) < 10


def test_numbers_are_tuned_on_request():
    source = "def f(x):\n    return 4.0 * x\n"
    given = task(fn(source, -16.0))._replace(evaluate=lambda fns: [_by_number(each) for each in fns])
    [child] = mutation.Tuner(with_literals=True, budget=25).propose(given)
    [found] = re.findall(r"return (\S+) \*", str(child.skeleton()))
    assert float(found) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("source", ["def f(x):\n    return x\n", "SELECT 1;", SOURCE.replace("0..1", "1..0")])
def test_a_parent_with_nothing_to_tune_is_unfit(source):
    with pytest.raises(ValueError, match=r"\w"):
        mutation.Tuner().propose(task(fn(source)))


@pytest.mark.parametrize("options", [{"budget": 0}, {"patience": 0}, {"most_literals": 0}])
def test_bad_options_are_named(options):
    with pytest.raises(errors.SetupError, match="at least 1"):
        mutation.Tuner(**options)


def test_drafts_count_in_the_budget():
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


def _by_number(each: function.Function) -> evaluation.Evaluation:
    [found] = re.findall(r"return (\S+) \*", str(each.skeleton()))
    return evaluation.Evaluation(-((float(found) - 1.0) ** 2))
