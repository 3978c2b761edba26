"""MixedMutator, MutatorBandit and default mutators."""

from random import Random

import pytest

from atoll import errors, evaluation, function, gate, llm, mutation, testing
from atoll.candidate import Candidate
from atoll.mutation.combined import ENGINE_KEY
from tests.mutation.corpus import CORPUS
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax_mutator import evaluate_text


class TestMixedMutator(testing.ProposerSuite):
    num_steps = 5

    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.MixedMutator.with_bandit(
            {"syntax": mutation.SyntaxMutator(), "tuner": mutation.Tuner(3, with_literals=True)}
        )

    def learner(self) -> function.Learner:
        return mutation.MutatorBandit(["syntax", "tuner"])

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(CORPUS["cap set"].source)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=evaluate_text))


class NamedProposer:
    """Proposes a child whose text is the name of the proposer."""

    def __init__(self, name: str) -> None:
        self.name = name

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        return [function.derive_child(context.parents[-1], function.Text(self.name), engine=self.name)]


class InapplicableProposer:
    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        raise mutation.NotApplicable("cannot change these parents")


def make_result(
    engine: str, before: float, after: float | None, trials: int = 1, calls: int = 0
) -> function.IterationResult:
    children = []
    if after is not None:
        child = fn("child").with_evaluation(
            Candidate("1.0", "child", meta={ENGINE_KEY: engine, "trials": trials}), evaluation.Evaluation(after), after
        )
        children = [(child, gate.Decision("accept", "ran", "test"))]
    cost = evaluation.Cost(calls=calls)
    return function.IterationResult(1, 0, [fn("parent", before)], {ENGINE_KEY: engine}, children, None, cost)


def test_advised_mutator_proposes():
    mix = mutation.MixedMutator.with_bandit({"a": NamedProposer("a"), "b": NamedProposer("b")})
    for name in "ab":
        [child] = mix.propose(task(fn("x"))._replace(advice={ENGINE_KEY: name}))
        assert str(child.skeleton()) == name


def test_mutator_is_drawn_without_advice():
    mix = mutation.MixedMutator.with_bandit({"a": NamedProposer("a"), "b": NamedProposer("b")})
    assert {str(mix.propose(task(fn("x"), seed=seed))[0].skeleton()) for seed in range(20)} == {"a", "b"}


def test_next_mutator_proposes_if_first_is_not_applicable():
    mix = mutation.MixedMutator.with_bandit({"a": InapplicableProposer(), "b": NamedProposer("b")})
    [child] = mix.propose(task(fn("x"))._replace(advice={ENGINE_KEY: "a"}))
    assert str(child.skeleton()) == "b"
    with pytest.raises(ValueError, match="cannot change these parents"):
        mutation.MixedMutator.with_bandit({"a": InapplicableProposer()}).propose(task(fn("x")))


def test_bandit_prefers_gain_per_evaluation():
    bandit = mutation.MutatorBandit(["a", "b"])
    for step in range(100):
        bandit.learn(make_result("a", step, step + 1.0))
        bandit.learn(make_result("b", step, step - 1.0))
    assert bandit.compute_shares()["a"] > 0.65
    assert bandit.compute_shares()["b"] >= 0.1


def test_bandit_advises_expensive_mutator_less_often():
    bandit = mutation.MutatorBandit(["cheap", "expensive"])
    for _ in range(20):
        bandit.learn(make_result("cheap", 0.0, 0.0))
        bandit.learn(make_result("expensive", 0.0, 0.0, trials=40))
    rng = Random(0)
    advised = [bandit.advise(rng)[ENGINE_KEY] for _ in range(500)]
    assert advised.count("expensive") < 50


def test_bandit_counts_llm_calls_as_cost():
    shares = []
    for calls in (0, 1):
        bandit = mutation.MutatorBandit(["llm", "syntax"])
        for step in range(50):
            bandit.learn(make_result("llm", step, step + 1.0, calls=calls))
            bandit.learn(make_result("syntax", step, step + 1.0))
        shares.append(bandit.compute_shares()["llm"])
    assert shares[1] < shares[0]


def test_bandit_forgets_old_gains():
    bandit = mutation.MutatorBandit(["a", "b"], half_life=20)
    for step in range(50):
        bandit.learn(make_result("a", step, step + 1.0))
    before = bandit.compute_shares()["a"]
    for _ in range(200):
        bandit.learn(make_result("a", 50.0, 49.0))
    assert bandit.compute_shares()["a"] < before


def test_bandit_charges_failure_to_advised_mutator():
    bandit = mutation.MutatorBandit(["a", "b"])
    for _ in range(50):
        bandit.learn(make_result("a", 0.0, None))
    assert bandit.compute_shares()["a"] < bandit.compute_shares()["b"]


@pytest.mark.parametrize("options", [{"min_share": 0.0}, {"min_share": 0.9}, {"half_life": 0}, {"call_cost": -1}])
def test_invalid_options_are_rejected(options):
    with pytest.raises(errors.SetupError, match="The bandit has 2 mutators"):
        mutation.MutatorBandit(["a", "b"], **options)


def test_reversed_tunable_is_a_setup_error():
    for make in (mutation.make_default_mutator, lambda text: mutation.add_mutators(NamedProposer("llm"), text)):
        with pytest.raises(errors.SetupError, match="Tunable decay has reversed bounds, 1 to 0"):
            make("def f(x):\n    decay = 0.5  # tunable: 1..0\n    return decay * x\n")


def test_tuner_is_added_if_source_declares_tunables():
    assert list(mutation.add_mutators(NamedProposer("llm"), "not python").mutators) == ["llm"]
    declared = "def f(x):\n    decay = 0.5  # tunable: 0..1\n    return decay * x\n"
    assert list(mutation.add_mutators(NamedProposer("llm"), declared).mutators) == ["llm", "tuner"]
    assert list(mutation.make_default_mutator(declared).mutators) == ["syntax", "refined", "tuner"]


def test_weights_add_mutators_to_llm():
    text = "def f(x):\n    return 2.0 * x\n"

    def mix(**weights: float) -> list[str]:
        return list(mutation.add_mutators(NamedProposer("llm"), text, weights=weights).mutators)

    assert mix() == ["llm"]
    assert mix(tuner=1.0) == ["llm", "tuner"]
    assert mix(tuner=1.0, syntax=0.5) == ["llm", "tuner", "syntax"]
    assert mix(tuner=0.0) == ["llm"]


def test_weights_multiply_gains_and_zero_disables():
    unweighted = mutation.MutatorBandit(["a", "b", "c"]).compute_shares()
    weighted = mutation.MutatorBandit(["a", "b", "c"], weights={"a": 3.0, "c": 0.0}).compute_shares()
    assert weighted["a"] > unweighted["a"] > weighted["c"] == 0.0
    assert sum(weighted.values()) == pytest.approx(1.0)
    assert weighted["a"] - 0.1 == pytest.approx(3 * (weighted["b"] - 0.1))  # above the minimal share


@pytest.mark.parametrize("weights", [{"a": 0.0, "b": 0.0}, {"a": -1.0}])
def test_invalid_weights_are_rejected(weights):
    with pytest.raises(errors.SetupError, match="above 0"):
        mutation.MutatorBandit(["a", "b"], weights=weights)
