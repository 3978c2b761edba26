"""Functions: evaluated once, cloned with or without evaluation; failures are results, not exceptions."""

import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from atoll import errors, evaluation, function, testing
from atoll.candidate import EMPTY, Candidate
from atoll.evaluation import Cost, Evaluation

DOUBLE = "def f(x):\n    return 2 * x\n"


def call(skeleton: function.Skeleton[..., Any], value: Any) -> Any:
    return skeleton(value)


def make_function(
    source: str = DOUBLE, inputs: Sequence[Any] = (1.0, 2.0), evaluator: Callable[..., Any] = call
) -> function.DefaultFunction:
    skeleton = function.PyAstSkeleton(source)
    return function.DefaultFunction(function.DefaultFunctionProps(skeleton, inputs, evaluator))


def make_function_with(evaluate: Callable[..., Any]) -> function.DefaultFunction:
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text("text"), candidate_evaluator=evaluate))


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


def test_score_is_mean_over_inputs() -> None:
    fn = make_function()
    assert fn.evaluate() == 3.0
    assert fn.score() == 3.0
    assert fn.evaluation is not None
    assert fn.evaluation.scores == (2.0, 4.0)


def test_signature_is_tuple_of_scores_as_text() -> None:
    fn = make_function()
    fn.evaluate()
    assert fn.signature() == "(2.0, 4.0)"


def test_equal_scores_give_equal_signature_for_any_text() -> None:
    one, other = make_function(), make_function("def g(y):\n    return y + y\n")
    one.evaluate()
    other.evaluate()
    assert one.signature() == other.signature()


def test_evaluate_twice_is_error() -> None:
    fn = make_function()
    fn.evaluate()
    with pytest.raises(errors.AlreadyEvaluated) as refused:
        fn.evaluate()
    assert str(refused.value) == "This function was evaluated before: clone it with its skeleton first."
    assert fn.score() == 3.0


def test_failed_function_is_not_evaluated_again() -> None:
    fn = make_function("def f(x): raise ValueError('no')")
    assert fn.evaluate() is None
    with pytest.raises(errors.AlreadyEvaluated):
        fn.evaluate()


@pytest.mark.parametrize("ask", [function.DefaultFunction.score, function.DefaultFunction.signature])
def test_results_before_evaluate_are_errors(ask: Callable[[function.DefaultFunction], Any]) -> None:
    with pytest.raises(errors.NotEvaluated) as refused:
        ask(make_function())
    assert str(refused.value) == "This function was not evaluated yet: call evaluate() first."


def test_wrong_use_raises_setup_error() -> None:
    assert issubclass(errors.NotEvaluated, errors.SetupError)
    assert issubclass(errors.AlreadyEvaluated, errors.SetupError)


def test_function_without_evaluator_is_rejected() -> None:
    with pytest.raises(errors.SetupError) as refused:
        function.DefaultFunction(function.DefaultFunctionProps(function.Text("text")))
    assert str(refused.value) == "Pass an evaluator with evaluation_inputs, or a candidate_evaluator."
    with pytest.raises(errors.SetupError) as refused:
        make_function(inputs=())
    assert str(refused.value) == "evaluation_inputs is empty: give at least one input."


def test_clone_keeps_evaluation() -> None:
    fn = make_function()
    fn.evaluate()
    copy = fn.clone()
    assert copy is not fn
    assert (copy.score(), copy.signature(), copy.evaluation) == (fn.score(), fn.signature(), fn.evaluation)
    assert copy.skeleton() is fn.skeleton()
    with pytest.raises(errors.AlreadyEvaluated):
        copy.evaluate()


def test_clone_keeps_its_candidate() -> None:
    settled = make_function().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0), 1.0)
    assert settled.clone().candidate == Candidate("3.0", DOUBLE)


def test_clone_with_other_skeleton_is_unevaluated() -> None:
    fn = make_function().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0), 1.0)
    copy = fn.clone(function.PyAstSkeleton("def f(x): return x"))
    assert (copy.candidate, copy.evaluation) == (None, None)
    with pytest.raises(errors.NotEvaluated):
        copy.score()
    assert copy.evaluate() == 1.5
    assert fn.score() == 1.0


def test_clone_with_same_skeleton_is_unevaluated() -> None:
    fn = make_function()
    fn.evaluate()
    copy = fn.clone(fn.skeleton())
    with pytest.raises(errors.NotEvaluated):
        copy.score()


def test_evaluating_clone_keeps_original() -> None:
    fn = make_function()
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
def test_score_after_failure_is_none(source: str) -> None:
    fn = make_function(source)
    assert fn.evaluate() is None
    assert fn.score() is None
    assert fn.evaluation is not None
    assert fn.evaluation.failure


def test_failure_names_input_and_reason() -> None:
    fn = make_function("def f(x): return 1 if x < 2 else float('inf')")
    fn.evaluate()
    assert fn.evaluation is not None
    assert fn.evaluation.failure == "input 1: the score is inf, not a finite number"


def test_system_exit_of_candidate_is_failure() -> None:
    fn = make_function("import sys\ndef f(x): sys.exit(3)")
    fn.evaluate()
    assert fn.evaluation is not None
    assert fn.evaluation.failure == "SystemExit: 3"


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), None, "good", object()])
def test_evaluator_result_without_number_is_failure(odd: object) -> None:
    fn = make_function_with(lambda skeleton: odd)
    assert fn.evaluate() is None
    assert fn.evaluation is not None
    assert fn.evaluation.failure is not None
    assert "not a finite number" in fn.evaluation.failure


def test_evaluator_exception_is_failure() -> None:
    def evaluate(skeleton: object) -> Evaluation:
        raise OSError("no such file")

    fn = make_function_with(evaluate)
    fn.evaluate()
    assert fn.evaluation is not None
    assert fn.evaluation.failure == "the evaluator raised OSError: no such file"


def test_journal_error_during_evaluation_is_raised() -> None:
    def evaluate(skeleton: object) -> Evaluation:
        raise errors.JournalFailed("the disk is full")

    with pytest.raises(errors.JournalFailed):
        make_function_with(evaluate).evaluate()


def test_evaluator_can_return_full_evaluation() -> None:
    result = Evaluation(1.0, (0.5, 1.5), {"length": 3.0}, "shorter, please", cost=Cost(1.0))
    fn = make_function_with(lambda skeleton: result)
    fn.evaluate()
    assert fn.evaluation == result


def test_evaluation_events_have_inputs_and_score() -> None:
    fn, events = make_function(), list[Any]()
    fn.use_profiler(events.append)
    fn.evaluate()
    assert events == [
        function.OnEvaluate("on_evaluate", [1.0, 2.0]),
        function.OnEvaluated("on_evaluated", ([1.0, 2.0], 3.0)),
    ]


def test_failure_is_announced_without_score() -> None:
    fn, events = make_function("def f(x): exit()"), list[Any]()
    fn.use_profiler(events.append)
    fn.evaluate()
    assert events[1] == function.OnEvaluated("on_evaluated", ([1.0, 2.0], None))


def test_profiler_receives_events_of_clones_until_removed() -> None:
    fn, threads = make_function(), list[int]()
    remove = fn.use_profiler(lambda event: threads.append(threading.get_ident()))
    fn.clone(function.PyAstSkeleton(DOUBLE)).clone().evaluate()
    assert threads == [threading.get_ident()] * 2
    remove()
    fn.evaluate()
    assert len(threads) == 2


def test_with_evaluation_uses_fitness_as_score() -> None:
    fn = make_function().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0, (1.0,)), 42.0)
    assert fn.score() == 42.0
    assert function.get_fitness(fn) == 42.0
    assert fn.signature() == "(1.0,)"


def test_fitness_without_score_is_lowest() -> None:
    assert function.get_fitness(testing.make_failed_function()) < function.get_fitness(
        testing.make_evaluated_function(-1e308)
    )


def test_derive_child_records_parents_and_meta() -> None:
    parent = make_function().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0), 1.0)
    child = function.derive_child(parent, function.Text("new"), parents=[parent], engine="swap", temperature=0.5)
    assert child.candidate == Candidate("", "new", ("3.0",), meta={"engine": "swap", "temperature": 0.5})
    assert child.evaluation is None


def test_engine_proposer_proposes_one_child() -> None:
    class Engine:
        def use_profiler(self, profiler_fn: object) -> Callable[[], None]:
            return lambda: None

        def mutate(self, fn_list: list[function.Function]) -> function.Function:
            return fn_list[-1].clone(function.Text("child"))

    proposer = function.as_proposer(Engine())
    assert isinstance(proposer, function.Proposer)
    assert function.as_proposer(proposer) is proposer
    first, last = make_function(), make_function()
    task: Any = SimpleNamespace(parents=(first, last))
    assert [(str(item.skeleton()), item.evaluate()) for item in proposer.propose(task)] == [("child", None)]


def test_engine_without_propose_or_mutate_is_rejected() -> None:
    with pytest.raises(errors.SetupError) as refused:
        function.as_proposer("x" * 100)  # type: ignore[arg-type]
    displayed = "'" + "x" * 79
    assert str(refused.value) == f"{displayed} is not a mutator: add a method propose(context) or mutate(fn_list)."


def test_derive_child_without_parents_records_nothing() -> None:
    child = function.derive_child(make_function(), function.Text("new"), parents=[make_function()])
    assert child.candidate == Candidate("", "new")
    assert child.candidate.meta is EMPTY
    assert str(child.skeleton()) == "new"


def test_setup_error_during_evaluation_is_raised() -> None:
    def evaluate(skeleton: object) -> Evaluation:
        raise errors.SetupError("say which sandbox")

    with pytest.raises(errors.SetupError, match="say which sandbox"):
        make_function_with(evaluate).evaluate()


def test_clone_after_with_evaluation_matches_original() -> None:
    fn = make_function().with_evaluation(Candidate("3.0", DOUBLE), Evaluation(1.0, (1.0,)), 42.0)
    assert (fn.clone().score(), fn.clone().signature()) == (42.0, "(1.0,)")
    assert make_function().with_evaluation(Candidate("3.0", DOUBLE)).evaluation is None


def test_wrong_number_of_results_is_failure() -> None:
    for results in ([1.0], [1.0, 2.0, 3.0]):
        evaluate = function.PerInputEvaluator(call, (1.0, 2.0), run=lambda *_, results=results: results)
        failure = evaluate(function.Text("text")).failure
        assert failure is not None
        assert failure.startswith("ValueError: zip()")


def test_rewritten_skeleton_keeps_names() -> None:
    skeleton = function.PyAstSkeleton("def f(): return shift", {"shift": 3})
    assert isinstance(skeleton, function.Rewritable)
    assert skeleton.with_text("def g(): return 2 * shift")() == 6


def test_traceback_shows_skeleton_code() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        function.PyAstSkeleton("def f(): return 1 / 0")()
    assert raised.traceback[-1].frame.code.raw.co_filename == "<skeleton>"


def test_evaluation_time_is_cost() -> None:
    fn = make_function()
    fn.evaluate()
    assert fn.evaluation is not None
    assert 0 < fn.evaluation.cost.seconds < 60
    assert fn.evaluation.cost == Cost(fn.evaluation.cost.seconds)


def test_inputs_can_be_reduced_as_funsearch_does() -> None:
    last = function.PerInputEvaluator(call, (1.0, 2.0), reduce=lambda scores: scores[-1])
    assert last(function.PyAstSkeleton(DOUBLE)).score == 4.0


def test_runner_of_evaluator_can_be_chosen() -> None:
    def sandbox(evaluator: Any, skeleton: Any, inputs: Sequence[Any]) -> Sequence[object]:
        return [evaluator(str, item) for item in inputs]

    result = function.PerInputEvaluator(lambda skeleton, value: len(skeleton(value)), ("a", "bcd"), run=sandbox)
    assert result(function.Text("untouched")).scores == (1.0, 3.0)


def test_skeleton_is_text_and_callable() -> None:
    skeleton = function.PyAstSkeleton(DOUBLE)
    assert str(skeleton) == DOUBLE
    assert skeleton(4) == 8
    assert skeleton(x=5) == 10


def test_skeleton_of_untrusted_code_runs_nothing() -> None:
    ran: list[str] = []
    skeleton = function.PyAstSkeleton("note('loaded')\ndef f(): note('called')", {"note": ran.append})
    str(skeleton)
    assert ran == []
    skeleton()
    skeleton()
    assert ran == ["loaded", "called", "called"]


def test_invalid_code_raises_only_when_called() -> None:
    skeleton = function.PyAstSkeleton("def f(:")
    assert str(skeleton) == "def f(:"
    with pytest.raises(SyntaxError):
        skeleton()


def test_source_without_function_is_error() -> None:
    with pytest.raises(ValueError, match=r"^the source does not define a function$"):
        function.PyAstSkeleton("x = 1")()


def test_skeleton_calls_first_function_with_other_names() -> None:
    source = "import math\ndef f(n): return helper(n) + (f(n - 1) if n else shift)\ndef helper(n): return math.floor(n)"
    assert function.PyAstSkeleton(source, {"shift": 100})(3) == 3 + 2 + 1 + 0 + 100


def test_skeleton_definitions_stay_private() -> None:
    names: dict[str, Any] = {"shift": 1}
    function.PyAstSkeleton("secret = 1\ndef f(): return secret", names)()
    assert names == {"shift": 1}


def test_text_returns_itself_when_called() -> None:
    text = function.Text("be brief")
    assert (text(), str(text)) == ("be brief", "be brief")


def test_overflowing_mean_is_failure() -> None:
    fn = make_function("def f(x): return 1.7e308")
    assert fn.evaluate() is None
    assert fn.evaluation is not None
    assert evaluation.from_data(evaluation.to_data(fn.evaluation)) == fn.evaluation


@pytest.mark.parametrize("reduce", [None, lambda scores: 1 / 0])
def test_evaluator_reports_reduce_error_as_failure(reduce: Any) -> None:
    evaluate = function.PerInputEvaluator(call, (1.0, 2.0), **({"reduce": reduce} if reduce else {}))
    assert evaluate(function.PyAstSkeleton("def f(x): return 1.7e308")).failure is not None
