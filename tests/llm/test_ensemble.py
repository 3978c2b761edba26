"""Several models as one: who is asked, who steps in, and what is learnt from what came of it."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from atoll import errors, function, gate, llm, testing
from atoll.evaluation import Cost
from atoll.llm import ensemble
from atoll.llm.ensemble import ADVICE_KEY, EnsembleLLM, EnsembleMember


def saying(name: str) -> llm.FunctionLLM:
    return llm.FunctionLLM(lambda prompt: f"{name} says {prompt}", name=name)


def failing(**options: Any) -> llm.FunctionLLM:
    def answer(prompt: str) -> str:
        raise llm.LLMError("not now", **options)

    return llm.FunctionLLM(answer)


def members(**weights: float) -> list[EnsembleMember]:
    return [EnsembleMember(name, saying(name), weight) for name, weight in weights.items()]


class Asking:
    """A proposer that asks once and makes nothing of it."""

    def __init__(self, model: llm.LLM) -> None:
        self.model, self.texts = model, list[str]()

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        self.texts.append(self.model("hi").text)
        return []


def task_of(advice: dict[str, Any]) -> function.ProposalContext:
    return function.ProposalContext(0, 1, 0, [], {}, advice, Random(0), None, lambda fns: [], lambda fn, result: None)


def outcome(name: str, parent: float, child: float | None, usd: float = 0.0) -> function.IterationResult:
    children = [] if child is None else [(scored(child), gate.Decision("accept", "", "test"))]
    return function.IterationResult(1, 0, [scored(parent)], {ADVICE_KEY: name}, children, None, Cost(usd=usd))


def scored(score: float) -> function.Function:
    return testing.make_evaluated_function(score)


def test_a_step_asks_the_model_that_it_was_advised_of_and_the_rest_ask_the_first():
    ensemble = EnsembleLLM(members(a=1, b=1))
    engine = Asking(ensemble)
    llm.RoutedProposer(engine).propose(task_of({ADVICE_KEY: "b"}))
    llm.RoutedProposer(engine).propose(task_of({}))
    assert engine.texts == ["b says hi", "a says hi"]
    assert ensemble("hi").text == "a says hi"


def test_another_steps_in_where_one_fails():
    ensemble = EnsembleLLM(
        [EnsembleMember("a", failing()), EnsembleMember("b", failing()), EnsembleMember("c", saying("c"), 0)]
    )
    assert ensemble("hi").text == "c says hi"


def test_it_is_down_only_if_all_are():
    half = EnsembleLLM(
        [EnsembleMember("a", failing(is_down=True, status=503)), EnsembleMember("b", failing(status=503))]
    )
    with pytest.raises(llm.LLMError, match=r"not now not now") as caught:
        half("hi")
    assert (caught.value.is_down, caught.value.status) == (False, 503)
    with pytest.raises(llm.LLMError) as caught:
        EnsembleLLM([EnsembleMember("a", failing(is_down=True)), EnsembleMember("b", failing(is_down=True, status=1))])(
            "hi"
        )
    assert (caught.value.is_down, caught.value.status) == (True, None)


def test_names_with_commas_and_weights_make_one():
    ensemble = llm.make_llm("ollama:a*0.8, vllm:b:c@http://127.0.0.1:1/v1*0.2,lmstudio:d")
    assert isinstance(ensemble, EnsembleLLM)
    assert [(member.name, member.weight) for member in ensemble.members] == [
        ("ollama:a", 0.8),
        ("vllm:b:c@http://127.0.0.1:1/v1", 0.2),
        ("lmstudio:d", 1.0),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ollama:a,ollama:a", "is named twice"),
        ("ollama:a*0,ollama:b*0", "one above 0"),
        ("ollama:a,none", "combines 'none' with others"),
    ],
)
def test_an_ensemble_that_is_none_is_refused(name, message):
    with pytest.raises(errors.SetupError, match=message):
        llm.make_llm(name)


def advised(learner: function.Learner, times: int = 1000) -> Counter[Any]:
    return Counter(learner.advise(Random(number))[ADVICE_KEY] for number in range(times))


def test_weights_are_drawn():
    result = advised(ensemble.make_router("weights", EnsembleLLM(members(a=3, b=1, c=0))))
    assert 700 < result["a"] < 800
    assert result.keys() == {"a", "b"}


def test_the_strong_model_is_asked_on_a_plateau_only():
    learner = ensemble.make_router("plateau", EnsembleLLM(members(cheap=1, strong=1)), plateau_iterations=3)
    for _ in range(3):
        assert set(advised(learner, 20)) == {"cheap"}
        learner.learn(outcome("cheap", 1.0, 0.5))
    assert set(advised(learner, 20)) == {"strong"}
    learner.learn(outcome("strong", 1.0, None))
    assert set(advised(learner, 20)) == {"strong"}
    learner.learn(outcome("strong", 1.0, 2.0))
    assert set(advised(learner, 20)) == {"cheap"}


def played(gains: dict[str, tuple[float, float, float]], steps: int = 400) -> Counter[str]:
    """Plays a bandit whose arms have (chance to improve, improvement, dollars); returns how often each was asked."""
    learner, selections, rng = ensemble.BanditRouter(members(**dict.fromkeys(gains, 1.0))), Counter[str](), Random(1)
    for step in range(steps):
        name = str(learner.advise(Random(step))[ADVICE_KEY])
        selections[name] += 1
        chance, gain, usd = gains[name]
        learner.learn(outcome(name, 1.0, 1.0 + gain if rng.random() < chance else 0.5, usd))
    return selections


def test_the_bandit_prefers_what_improves_more_per_dollar():
    equal = played({"cheap": (0.3, 0.1, 0.001), "dear": (0.3, 0.1, 0.01)})
    assert equal["cheap"] > 0.85 * equal.total()
    worth = played({"cheap": (0.01, 0.1, 0.008), "dear": (0.6, 0.1, 0.01)})
    assert worth["dear"] > 0.7 * worth.total()
    free = played({"a": (0.6, 0.1, 0.0), "b": (0.05, 0.1, 0.0)})
    assert free["a"] > 0.6 * free.total()


def test_the_bandit_tries_everybody_and_knows_only_what_it_was_taught():
    learner = ensemble.BanditRouter(members(a=1, b=1, c=0))
    assert advised(learner, 50).keys() == {"a", "b"}
    learner.learn(outcome("a", 1.0, 2.0))
    assert advised(learner, 50).keys() == {"b"}
    again = ensemble.BanditRouter(members(a=1, b=1, c=0))
    again.learn(outcome("a", 1.0, 2.0))
    for member in (learner, again):
        member.learn(outcome("b", 1.0, None))
        member.learn(outcome("gone", 1.0, 9.0))
    assert advised(learner, 50) == advised(again, 50)


def test_several_learners_advise_together():
    both = ensemble.CombinedLearner(ensemble.WeightRouter(members(a=1)), ensemble.PlateauRouter(members(b=1), 3))
    both.learn(outcome("a", 1.0, 2.0))
    assert both.advise(Random(0)) == {ADVICE_KEY: "b"}


class TestEnsemble(testing.LLMSuite):
    def make(self) -> EnsembleLLM:
        return EnsembleLLM([EnsembleMember("down", failing()), *members(a=1)])

    def expected(self, prompt: str) -> str:
        return f"a says {prompt}"


@pytest.mark.parametrize("make", [ensemble.WeightRouter, ensemble.BanditRouter])
def test_unreliable_llm_loses_its_share_quickly_and_regains_it(make):
    router = make([EnsembleMember(name, llm.FunctionLLM(str)) for name in ("good", "bad")])

    def learn(name: str, *, is_useful: bool) -> None:
        children = [(scored(1.0), gate.Decision("accept", "", "test"))] if is_useful else []
        router.learn(function.IterationResult(1, 0, [scored(1.0)], {ADVICE_KEY: name}, children, None, Cost(calls=1)))

    def count_bad() -> int:
        return sum(router.advise(Random(seed))[ADVICE_KEY] == "bad" for seed in range(200))

    for _ in range(10):
        learn("good", is_useful=True)
        learn("bad", is_useful=False)
    assert count_bad() < 30
    for _ in range(10):
        learn("bad", is_useful=True)
        learn("good", is_useful=False)
    assert count_bad() > 170
