"""Functions are judged once, clones keep or drop what was found, and a bad one is never an exception."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from atoll import errors, evaluation, function, testing
from atoll.candidate import EMPTY, Candidate
from atoll.evaluation import Cost, Evaluation

DOUBLE = "def f(x):\n    return 2 * x\n"


def call(skeleton: function.Skeleton[..., Any], given: Any) -> Any:
    return skeleton(given)


def made(
    source: str = DOUBLE, inputs: Sequence[Any] = (1.0, 2.0), evaluator: Callable[..., Any] = call
) -> function.DefaultFunction:
    skeleton = function.PyAstSkeleton(source)
    return function.DefaultFunction(function.DefaultFunctionProps(skeleton, inputs, evaluator))


def judged_by(judge: Callable[..., Any]) -> function.DefaultFunction:
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text("text"), candidate_evaluator=judge))


class TestPerInput(testing.CandidateEvaluatorSuite):
    def make(self) -> function.CandidateEvaluator:
        return function.PerInputEvaluator(call, (1.0, 2.0))

    def good(self) -> function.Skeleton[..., Any]:
        return function.PyAstSkeleton(DOUBLE)


class TestPerInputOfOne(testing.CandidateEvaluatorSuite):
    def make(self) -> function.CandidateEvaluator:
        return function.PerInputEvaluator(call, ["only"], reduce=max)

    def good(self) -> function.Skeleton[..., Any]:
        return function.PyAstSkeleton("def f(x): return 1")


def test_the_score_is_the_mean_over_the_inputs() -> None:
    fn = made()
    assert fn.evaluate() == 3.0
    assert fn.score() == 3.0
    assert fn.evaluation is not None
    assert fn.evaluation.scores == (2.0, 4.0)


def test_the_signature_is_the_tuple_of_scores_as_text() -> None:
    fn = made()
    fn.evaluate()
    assert fn.signature() == "(2.0, 4.0)"


def test_equal_scores_are_one_signature_whatever_the_text() -> None:
    one, other = made(), made("def g(y):\n    return y + y\n")
    one.evaluate()
    other.evaluate()
    assert one.signature() == other.signature()


def test_evaluating_twice_is_a_mistake() -> None:
    fn = made()
    fn.evaluate()
    with pytest.raises(errors.AlreadyEvaluated) as refused:
        fn.evaluate()
    assert str(refused.value) == "This function was evaluated before: clone it with its skeleton first."
    assert fn.score() == 3.0


def test_a_function_that_failed_is_not_evaluated_again_either() -> None:
    fn = made("def f(x): raise ValueError('no')")
    assert fn.evaluate() is None
    with pytest.raises(errors.AlreadyEvaluated):
        fn.evaluate()


@pytest.mark.parametrize("ask", [function.DefaultFunction.score, function.DefaultFunction.signature])
def test_asking_before_evaluating_is_a_mistake(ask: Callable[[function.DefaultFunction], Any]) -> None:
    with pytest.raises(errors.NotEvaluated) as refused:
        ask(made())
    assert str(refused.value) == "This function was not evaluated yet: call evaluate() first."


def test_mistakes_in_the_set_up_are_set_up_errors() -> None:
    assert issubclass(errors.NotEvaluated, errors.SetupError)
    assert issubclass(errors.AlreadyEvaluated, errors.SetupError)


def test_a_function_without_a_way_to_judge_it_is_refused() -> None:
    with pytest.raises(errors.SetupError) as refused:
        function.DefaultFunction(function.DefaultFunctionProps(function.Text("text")))
    assert str(refused.value) == "Pass an evaluator with evaluation_inputs, or a candidate_evaluator."
    with pytest.raises(errors.SetupError) as refused:
        made(inputs=())
    assert str(refused.value) == "There are no evaluation inputs: give at least one."


def test_a_clone_keeps_what_was_found() -> None:
    fn = made()
    fn.evaluate()
    copy = fn.clone()
    assert copy is not fn
    assert (copy.score(), copy.signature(), copy.evaluation) == (fn.score(), fn.signature(), fn.evaluation)
    assert copy.skeleton() is fn.skeleton()
    with pytest.raises(errors.AlreadyEvaluated):
        copy.evaluate()


def test_a_clone_keeps_its_candidate() -> None:
    settled = made().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0), 1.0)
    assert settled.clone().candidate == Candidate("3.0", DOUBLE)


def test_a_clone_with_another_skeleton_is_a_draft() -> None:
    fn = made().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0), 1.0)
    copy = fn.clone(function.PyAstSkeleton("def f(x): return x"))
    assert (copy.candidate, copy.evaluation) == (None, None)
    with pytest.raises(errors.NotEvaluated):
        copy.score()
    assert copy.evaluate() == 1.5
    assert fn.score() == 1.0


def test_a_clone_with_the_same_skeleton_is_a_draft_too() -> None:
    fn = made()
    fn.evaluate()
    copy = fn.clone(fn.skeleton())
    with pytest.raises(errors.NotEvaluated):
        copy.score()


def test_a_draft_that_is_evaluated_leaves_its_original_alone() -> None:
    fn = made()
    fn.clone().evaluate()
    with pytest.raises(errors.NotEvaluated):
        fn.score()


@pytest.mark.parametrize(
    "source",
    [
        "def f(x): raise ValueError('no')",
        "def f(x): return float('nan')",
        "def f(x): return None",
        "def f(x): return 'text'",
        "def f(x): return 1 if x < 2 else float('inf')",
        "def f(x): exit()",
        "def f(x): raise SystemExit('bye')",
        "def f(x): return f(x)",
        "def f(x:",
        "x = 1",
        "raise RuntimeError('while loading')",
        "",
    ],
)
def test_the_score_after_a_failure_is_none(source: str) -> None:
    fn = made(source)
    assert fn.evaluate() is None
    assert fn.score() is None
    assert fn.evaluation is not None
    assert fn.evaluation.failure


def test_a_failure_names_the_input_and_the_reason() -> None:
    fn = made("def f(x): return 1 if x < 2 else float('inf')")
    fn.evaluate()
    assert fn.evaluation is not None
    assert fn.evaluation.failure == "input 1: the score is inf, not a finite number"


def test_a_candidate_that_exits_ends_nothing() -> None:
    fn = made("import sys\ndef f(x): sys.exit(3)")
    fn.evaluate()
    assert fn.evaluation is not None
    assert fn.evaluation.failure == "SystemExit: 3"


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), None, "good", object()])
def test_a_judge_that_returns_no_number_makes_a_failure(odd: object) -> None:
    fn = judged_by(lambda skeleton: odd)
    assert fn.evaluate() is None
    assert fn.evaluation is not None
    assert fn.evaluation.failure is not None
    assert "not a finite number" in fn.evaluation.failure


def test_a_judge_that_raises_makes_a_failure() -> None:
    def judge(skeleton: object) -> Evaluation:
        raise OSError("no such file")

    fn = judged_by(judge)
    fn.evaluate()
    assert fn.evaluation is not None
    assert fn.evaluation.failure == "the evaluator raised OSError: no such file"


def test_a_journal_that_fails_while_a_judge_buys_is_no_bad_candidate() -> None:
    def judge(skeleton: object) -> Evaluation:
        raise errors.JournalFailed("the disk is full")

    with pytest.raises(errors.JournalFailed):
        judged_by(judge).evaluate()


def test_a_judge_may_say_everything() -> None:
    found = Evaluation(1.0, (0.5, 1.5), {"length": 3.0}, "shorter, please", cost=Cost(1.0))
    fn = judged_by(lambda skeleton: found)
    fn.evaluate()
    assert fn.evaluation == found


def test_judging_is_announced_before_and_after_with_the_inputs_and_the_score() -> None:
    fn, heard = made(), list[Any]()
    fn.use_profiler(heard.append)
    fn.evaluate()
    assert heard == [
        function.OnEvaluate("on_evaluate", [1.0, 2.0]),
        function.OnEvaluated("on_evaluated", ([1.0, 2.0], 3.0)),
    ]


def test_a_failure_is_announced_without_a_score() -> None:
    fn, heard = made("def f(x): exit()"), list[Any]()
    fn.use_profiler(heard.append)
    fn.evaluate()
    assert heard[1] == function.OnEvaluated("on_evaluated", ([1.0, 2.0], None))


def test_a_profiler_hears_all_clones_until_it_is_removed_and_on_the_same_thread() -> None:
    fn, threads = made(), list[int]()
    remove = fn.use_profiler(lambda event: threads.append(threading.get_ident()))
    fn.clone(function.PyAstSkeleton(DOUBLE)).clone().evaluate()
    assert threads == [threading.get_ident()] * 2
    remove()
    fn.evaluate()
    assert len(threads) == 2


def test_a_settled_function_has_the_rank_of_its_island_as_its_score() -> None:
    fn = made().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0, (1.0,)), 42.0)
    assert fn.score() == 42.0
    assert function.get_fitness(fn) == 42.0
    assert fn.signature() == "(1.0,)"


def test_no_score_ranks_below_every_score() -> None:
    assert function.get_fitness(testing.make_failed_function()) < function.get_fitness(
        testing.make_evaluated_function(-1e308)
    )


def test_a_draft_notes_its_parents_and_how_it_was_made() -> None:
    parent = made().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0), 1.0)
    child = function.derive_child(parent, function.Text("new"), parents=[parent], engine="swap", temperature=0.5)
    assert child.candidate == Candidate("", "new", ("3.0",), meta={"engine": "swap", "temperature": 0.5})
    assert child.evaluation is None


def test_a_mutation_engine_is_lifted_to_a_proposer_of_one_child() -> None:
    class Engine:
        def use_profiler(self, profiler_fn: object) -> Callable[[], None]:
            return lambda: None

        def mutate(self, fn_list: list[function.Function]) -> function.Function:
            return fn_list[-1].clone(function.Text("child"))

    proposer = function.as_proposer(Engine())
    assert isinstance(proposer, function.Proposer)
    assert function.as_proposer(proposer) is proposer
    first, last = made(), made()
    task: Any = SimpleNamespace(parents=(first, last))
    assert [(str(each.skeleton()), each.evaluate()) for each in proposer.propose(task)] == [("child", None)]


def test_what_neither_proposes_nor_mutates_is_no_engine() -> None:
    with pytest.raises(errors.SetupError) as refused:
        function.as_proposer("x" * 100)  # type: ignore[arg-type]
    shown = "'" + "x" * 79
    assert str(refused.value) == f"{shown} is not a mutator: add a method propose(context) or mutate(fn_list)."


def test_a_draft_of_nobody_in_particular_notes_nothing() -> None:
    child = function.derive_child(made(), function.Text("new"), parents=[made()])
    assert child.candidate == Candidate("", "new")
    assert child.candidate.meta is EMPTY
    assert str(child.skeleton()) == "new"


def test_a_set_up_that_cannot_work_is_no_bad_candidate() -> None:
    def judge(skeleton: object) -> Evaluation:
        raise errors.SetupError("say which sandbox")

    with pytest.raises(errors.SetupError, match="say which sandbox"):
        judged_by(judge).evaluate()


def test_a_clone_that_was_settled_is_as_its_original() -> None:
    fn = made().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0, (1.0,)), 42.0)
    assert (fn.clone().score(), fn.clone().signature()) == (42.0, "(1.0,)")
    assert made().with_evaluation(Candidate("3.0", DOUBLE)).evaluation is None


def test_a_runner_that_returns_too_few_results_or_too_many_makes_a_failure() -> None:
    for results in ([1.0], [1.0, 2.0, 3.0]):
        judge = function.PerInputEvaluator(call, (1.0, 2.0), run=lambda *_, results=results: results)
        failure = judge(function.Text("text")).failure
        assert failure is not None
        assert failure.startswith("ValueError: zip()")


def test_a_skeleton_that_is_rewritten_keeps_its_names() -> None:
    skeleton = function.PyAstSkeleton("def f(): return shift", {"shift": 3})
    assert isinstance(skeleton, function.Rewritable)
    assert skeleton.with_text("def g(): return 2 * shift")() == 6


def test_code_of_a_skeleton_is_found_under_its_name_in_a_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        function.PyAstSkeleton("def f(): return 1 / 0")()
    assert raised.traceback[-1].frame.code.raw.co_filename == "<skeleton>"


def test_the_time_of_judging_is_its_cost() -> None:
    fn = made()
    fn.evaluate()
    assert fn.evaluation is not None
    assert 0 < fn.evaluation.cost.seconds < 60
    assert fn.evaluation.cost == Cost(fn.evaluation.cost.seconds)


def test_inputs_can_be_reduced_as_funsearch_does() -> None:
    last = function.PerInputEvaluator(call, (1.0, 2.0), reduce=lambda scores: scores[-1])
    assert last(function.PyAstSkeleton(DOUBLE)).score == 4.0


def test_where_an_evaluator_meets_a_skeleton_can_be_chosen() -> None:
    def jail(evaluator: Any, skeleton: Any, inputs: Sequence[Any]) -> Sequence[object]:
        return [evaluator(str, each) for each in inputs]

    found = function.PerInputEvaluator(lambda skeleton, given: len(skeleton(given)), ("a", "bcd"), run=jail)
    assert found(function.Text("untouched")).scores == (1.0, 3.0)


def test_a_skeleton_is_its_source_as_text_and_its_function_when_called() -> None:
    skeleton = function.PyAstSkeleton(DOUBLE)
    assert str(skeleton) == DOUBLE
    assert skeleton(4) == 8
    assert skeleton(x=5) == 10


def test_holding_untrusted_code_runs_nothing() -> None:
    ran: list[str] = []
    skeleton = function.PyAstSkeleton("note('loaded')\ndef f(): note('called')", {"note": ran.append})
    str(skeleton)
    assert ran == []
    skeleton()
    skeleton()
    assert ran == ["loaded", "called", "called"]


def test_code_that_does_not_parse_can_be_held_and_raises_when_called() -> None:
    skeleton = function.PyAstSkeleton("def f(:")
    assert str(skeleton) == "def f(:"
    with pytest.raises(SyntaxError):
        skeleton()


def test_a_source_without_a_function_says_so() -> None:
    with pytest.raises(ValueError, match=r"^the source does not define a function$"):
        function.PyAstSkeleton("x = 1")()


def test_the_first_function_is_called_and_sees_the_others_itself_and_the_names_it_was_given() -> None:
    source = "import math\ndef f(n): return helper(n) + (f(n - 1) if n else shift)\ndef helper(n): return math.floor(n)"
    assert function.PyAstSkeleton(source, {"shift": 100})(3) == 3 + 2 + 1 + 0 + 100


def test_what_a_skeleton_defines_stays_in_it() -> None:
    names: dict[str, Any] = {"shift": 1}
    function.PyAstSkeleton("secret = 1\ndef f(): return secret", names)()
    assert names == {"shift": 1}


def test_a_text_is_called_for_itself() -> None:
    text = function.Text("be brief")
    assert (text(), str(text)) == ("be brief", "be brief")


def test_the_mean_of_scores_that_is_too_large_is_a_failure() -> None:
    fn = made("def f(x): return 1.7e308")
    assert fn.evaluate() is None
    assert fn.evaluation is not None
    assert evaluation.from_data(evaluation.to_data(fn.evaluation)) == fn.evaluation


@pytest.mark.parametrize("reduce", [None, lambda scores: 1 / 0])
def test_a_judge_does_not_raise_where_its_scores_cannot_be_reduced(reduce: Any) -> None:
    judge = function.PerInputEvaluator(call, (1.0, 2.0), **({"reduce": reduce} if reduce else {}))
    assert judge(function.PyAstSkeleton("def f(x): return 1.7e308")).failure is not None
