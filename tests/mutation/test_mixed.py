"""Several engines as one, and the bandit that chooses among them."""

from random import Random

import pytest

from atoll import errors, evaluation, function, gate, llm, mutation, testing
from atoll.candidate import Candidate
from atoll.mutation.combined import ENGINE_KEY
from tests.mutation.corpus import CORPUS
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax import judged_by_its_text


class TestMixed(testing.ProposerSuite):
    num_steps = 5

    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.MixedMutator.with_bandit(
            {"syntax": mutation.SyntaxMutator(), "tuner": mutation.Tuner(3, with_literals=True)}
        )

    def learner(self) -> function.Learner:
        return mutation.MutatorBandit(["syntax", "tuner"])

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(CORPUS["cap set"].source)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=judged_by_its_text))


class Named:
    """Proposes a child that says who made it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        return [function.derive_child(context.parents[-1], function.Text(self.name), engine=self.name)]


class Unable:
    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        raise mutation.NotApplicable("nothing for me")


def outcome(
    engine: str, before: float, after: float | None, trials: int = 1, calls: int = 0
) -> function.IterationResult:
    children = []
    if after is not None:
        child = fn("child").with_evaluation(
            Candidate("1.0", "child", meta={ENGINE_KEY: engine, "trials": trials}), evaluation.Evaluation(after), after
        )
        children = [(child, gate.Decision("accept", "ran", "test"))]
    spent = evaluation.Cost(calls=calls)
    return function.IterationResult(1, 0, [fn("parent", before)], {ENGINE_KEY: engine}, children, None, spent)


def test_the_advised_engine_proposes():
    mix = mutation.MixedMutator.with_bandit({"a": Named("a"), "b": Named("b")})
    for name in "ab":
        [child] = mix.propose(task(fn("x"))._replace(advice={ENGINE_KEY: name}))
        assert str(child.skeleton()) == name


def test_without_advice_one_is_drawn():
    mix = mutation.MixedMutator.with_bandit({"a": Named("a"), "b": Named("b")})
    assert {str(mix.propose(task(fn("x"), seed=seed))[0].skeleton()) for seed in range(20)} == {"a", "b"}


def test_an_engine_that_can_do_nothing_makes_room():
    mix = mutation.MixedMutator.with_bandit({"a": Unable(), "b": Named("b")})
    [child] = mix.propose(task(fn("x"))._replace(advice={ENGINE_KEY: "a"}))
    assert str(child.skeleton()) == "b"
    with pytest.raises(ValueError, match="nothing for me"):
        mutation.MixedMutator.with_bandit({"a": Unable()}).propose(task(fn("x")))


def test_what_gains_more_per_evaluation_gets_more():
    bandit = mutation.MutatorBandit(["a", "b"])
    for step in range(100):
        bandit.learn(outcome("a", step, step + 1.0))
        bandit.learn(outcome("b", step, step - 1.0))
    assert bandit.compute_shares()["a"] > 0.65
    assert bandit.compute_shares()["b"] >= 0.1


def test_a_dear_step_is_asked_for_less_often():
    bandit = mutation.MutatorBandit(["cheap", "dear"])
    for _ in range(20):
        bandit.learn(outcome("cheap", 0.0, 0.0))
        bandit.learn(outcome("dear", 0.0, 0.0, trials=40))
    rng = Random(0)
    advised = [bandit.advise(rng)[ENGINE_KEY] for _ in range(500)]
    assert advised.count("dear") < 50


def test_calls_of_a_model_cost():
    shares = []
    for calls in (0, 1):
        bandit = mutation.MutatorBandit(["llm", "syntax"])
        for step in range(50):
            bandit.learn(outcome("llm", step, step + 1.0, calls=calls))
            bandit.learn(outcome("syntax", step, step + 1.0))
        shares.append(bandit.compute_shares()["llm"])
    assert shares[1] < shares[0]


def test_a_plateau_is_forgotten():
    bandit = mutation.MutatorBandit(["a", "b"], half_life=20)
    for step in range(50):
        bandit.learn(outcome("a", step, step + 1.0))
    before = bandit.compute_shares()["a"]
    for _ in range(200):
        bandit.learn(outcome("a", 50.0, 49.0))
    assert bandit.compute_shares()["a"] < before


def test_a_failure_counts_against_the_engine_that_was_asked():
    bandit = mutation.MutatorBandit(["a", "b"])
    for _ in range(50):
        bandit.learn(outcome("a", 0.0, None))
    assert bandit.compute_shares()["a"] < bandit.compute_shares()["b"]


@pytest.mark.parametrize("options", [{"floor": 0.0}, {"floor": 0.9}, {"memory": 0}, {"call": -1}])
def test_bad_options_are_named(options):
    with pytest.raises(errors.SetupError, match="A bandit of 2 engines"):
        mutation.MutatorBandit(["a", "b"], **options)


def test_a_start_whose_tunable_is_reversed_is_a_bad_set_up():
    for make in (mutation.make_default_mutator, lambda text: mutation.add_tuner(Named("llm"), text)):
        with pytest.raises(errors.SetupError, match="Tunable decay has its bounds reversed, 1 to 0"):
            make("def f(x):\n    decay = 0.5  # tunable: 1..0\n    return decay * x\n")


def test_a_model_is_one_of_the_engines_and_a_tuner_joins_where_something_is_declared():
    assert list(mutation.add_tuner(Named("llm"), "no python").mutators) == ["llm"]
    declared = "def f(x):\n    decay = 0.5  # tunable: 0..1\n    return decay * x\n"
    assert list(mutation.add_tuner(Named("llm"), declared).mutators) == ["llm", "tuner"]
    assert list(mutation.make_default_mutator(declared).mutators) == ["syntax", "refined", "tuner"]


def test_weights_multiply_what_engines_gain_and_zero_leaves_one_out():
    even = mutation.MutatorBandit(["a", "b", "c"]).compute_shares()
    weighed = mutation.MutatorBandit(["a", "b", "c"], weights={"a": 3.0, "c": 0.0}).compute_shares()
    assert weighed["a"] > even["a"] > weighed["c"] == 0.0
    assert sum(weighed.values()) == pytest.approx(1.0)
    assert weighed["a"] - 0.1 == pytest.approx(3 * (weighed["b"] - 0.1))  # above the floor that everybody has


@pytest.mark.parametrize("weights", [{"a": 0.0, "b": 0.0}, {"a": -1.0}])
def test_weights_that_leave_nobody_or_are_below_zero_are_refused(weights):
    with pytest.raises(errors.SetupError, match="above 0"):
        mutation.MutatorBandit(["a", "b"], weights=weights)
