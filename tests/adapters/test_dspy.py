"""DSPy programs through `AtollOptimizer`, with the real package and a scripted LM."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:Implementing custom LMs:DeprecationWarning")
WORDS = {"cat": "TAC", "dog": "GOD", "sun": "NUS", "tree": "EERT", "lamp": "PMAL", "fish": "HSIF"}


@pytest.fixture(scope="module")
def dspy() -> Any:
    """The package; a fixture loads it, because other test processes do not need to wait for it."""
    return pytest.importorskip("dspy")


def make_lm(dspy: Any, knows_task: Callable[[str], bool], reflection: str) -> Any:
    """Returns an LM that solves the task if the prompt satisfies `knows_task`, and reflects with a fixed text."""

    class ScriptedLM(dspy.BaseLM):  # type: ignore[misc, name-defined, unused-ignore]
        num_reflections = 0

        def forward(self, prompt: str | None = None, messages: Any = None, **options: Any) -> Any:
            text = prompt or "\n".join(str(message["content"]) for message in messages)
            if "to improve" in text:
                self.num_reflections += 1
                return _make_response(reflection)
            word = text.rpartition("[[ ## word ## ]]")[2].split()[0]
            answer = word[::-1].upper() if knows_task(text) else word
            return _make_response(f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]")

    return ScriptedLM(model="scripted")


def _make_response(text: str) -> Any:
    """Returns a response in the form of OpenAI."""
    message = SimpleNamespace(content=text, role="assistant", tool_calls=None)
    choice = SimpleNamespace(message=message, finish_reason="stop", index=0)
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return SimpleNamespace(choices=[choice], usage=usage, model="scripted")


def is_right(example: Any, prediction: Any, trace: Any = None) -> Any:
    import dspy

    feedback = f"{example.word} should become {example.answer}."
    return dspy.Prediction(score=float(prediction.answer == example.answer), feedback=feedback)


@pytest.fixture
def examples(dspy: Any) -> list[Any]:
    return [dspy.Example(word=word, answer=answer).with_inputs("word") for word, answer in WORDS.items()]


def test_wrong_program_becomes_right(dspy, examples):
    from atoll.adapters.dspy import AtollOptimizer

    instruction = "Reverse the word and write it in capital letters."
    model = make_lm(dspy, lambda prompt: "Reverse the word" in prompt, f"IDEA: say it.\n```text\n{instruction}\n```")
    with dspy.context(lm=model):
        program = dspy.Predict("word -> answer")
        assert program(word="cat").answer == "cat"
        optimizer = AtollOptimizer(is_right, max_metric_calls=60, num_demo_sets=1, verbose=False)
        better = optimizer.compile(program, trainset=examples[:4], valset=examples[4:])
        assert better(word="moon").answer == "NOOM"
        assert program(word="cat").answer == "cat"  # the student does not change
    assert optimizer.result is not None
    assert optimizer.result.score == 1.0
    assert optimizer.result.cost.tokens == 15 * model.num_reflections
    assert better.signature.instructions == instruction


def test_demos_are_chosen_by_validation(dspy, examples):
    from atoll.adapters.dspy import AtollOptimizer

    def has_demo(prompt: str) -> bool:
        return "TAC" in prompt or "GOD" in prompt or "NUS" in prompt

    with dspy.context(lm=make_lm(dspy, has_demo, "no idea")):
        optimizer = AtollOptimizer(is_right, max_metric_calls=60, num_demo_sets=2, max_demos=2, verbose=False)
        better = optimizer.compile(dspy.Predict("word -> answer"), trainset=examples[:3], valset=examples[3:])
        assert better.demos
        assert better(word="moon").answer == "NOOM"
