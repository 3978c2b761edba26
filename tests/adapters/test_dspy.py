"""DSPy programs through `AtollOptimizer`, with the real package and a scripted LM."""

from types import SimpleNamespace
from typing import Any

import pytest

dspy = pytest.importorskip("dspy")
from atoll.adapters.dspy import AtollOptimizer  # noqa: E402  # needs DSPy

pytestmark = pytest.mark.filterwarnings("ignore:Implementing custom LMs:DeprecationWarning")
WORDS = {"cat": "TAC", "dog": "GOD", "sun": "NUS", "tree": "EERT", "lamp": "PMAL", "fish": "HSIF"}


class ScriptedLM(dspy.BaseLM):  # type: ignore[misc, name-defined, unused-ignore]
    """Solves the task only with the right instruction, and writes it when it is asked to improve a text."""

    def __init__(self) -> None:
        super().__init__(model="scripted")
        self.num_reflections = 0

    def forward(self, prompt: str | None = None, messages: Any = None, **options: Any) -> Any:
        text = prompt or "\n".join(str(message["content"]) for message in messages)
        if "to improve" in text:
            self.num_reflections += 1
            answer = "IDEA: say it.\n```text\nReverse the word and write it in capital letters.\n```"
        else:
            word = text.rpartition("[[ ## word ## ]]")[2].split()[0]
            answer_word = word[::-1].upper() if "Reverse the word" in text else word
            answer = f"[[ ## answer ## ]]\n{answer_word}\n\n[[ ## completed ## ]]"
        return _make_response(answer)


def _make_response(text: str) -> Any:
    """Returns a response in the form of OpenAI."""
    message = SimpleNamespace(content=text, role="assistant", tool_calls=None)
    choice = SimpleNamespace(message=message, finish_reason="stop", index=0)
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return SimpleNamespace(choices=[choice], usage=usage, model="scripted")


def is_right(example: Any, prediction: Any, trace: Any = None) -> Any:
    feedback = f"{example.word} should become {example.answer}."
    return dspy.Prediction(score=float(prediction.answer == example.answer), feedback=feedback)


EXAMPLES = [dspy.Example(word=word, answer=answer).with_inputs("word") for word, answer in WORDS.items()]


def test_wrong_program_becomes_right():
    model = ScriptedLM()
    with dspy.context(lm=model):
        program = dspy.Predict("word -> answer")
        assert program(word="cat").answer == "cat"
        optimizer = AtollOptimizer(is_right, max_metric_calls=60, num_demo_sets=1, verbose=False)
        better = optimizer.compile(program, trainset=EXAMPLES[:4], valset=EXAMPLES[4:])
        assert better(word="moon").answer == "NOOM"
        assert program(word="cat").answer == "cat"  # the student does not change
    assert optimizer.result is not None
    assert optimizer.result.score == 1.0
    assert optimizer.result.cost.tokens == 15 * model.num_reflections
    assert better.signature.instructions == "Reverse the word and write it in capital letters."


def test_demos_are_chosen_by_validation():
    class DemoLM(ScriptedLM):
        def forward(self, prompt: str | None = None, messages: Any = None, **options: Any) -> Any:
            text = prompt or "\n".join(str(message["content"]) for message in messages)
            if "to improve" in text:
                return _make_response("no idea")
            word = text.rpartition("[[ ## word ## ]]")[2].split()[0]
            knows = "TAC" in text or "GOD" in text or "NUS" in text  # a demo shows what to do
            answer = word[::-1].upper() if knows else word
            return _make_response(f"[[ ## answer ## ]]\n{answer}\n\n[[ ## completed ## ]]")

    with dspy.context(lm=DemoLM()):
        optimizer = AtollOptimizer(is_right, max_metric_calls=60, num_demo_sets=2, max_demos=2, verbose=False)
        better = optimizer.compile(dspy.Predict("word -> answer"), trainset=EXAMPLES[:3], valset=EXAMPLES[3:])
        assert better.demos
        assert better(word="moon").answer == "NOOM"
