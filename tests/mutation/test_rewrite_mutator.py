"""RewriteMutator: a whole program by an LLM."""

import functools
from random import Random

import pytest

from atoll import function, llm, mutation, testing
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax_mutator import evaluate_text

SOURCE = "def f(x):\n    return x\n"
build_prompt = functools.partial(mutation.build_program_prompt, task_description="Return much.")


class TestRewriteMutator(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.RewriteMutator(model, build_prompt)

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(SOURCE)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=evaluate_text))

    def answer(self, step: int, call: str, prompt: str) -> str:
        number = Random(f"{step}/{call}/{prompt}").randint(0, 9)
        return "I cannot." if number == 9 else f"Here:\n```python\ndef f(x):\n    return x * {number}\n```\n"


def make_mutator(response: str) -> mutation.RewriteMutator:
    return mutation.RewriteMutator(testing.ScriptedLLM(lambda step, call, prompt: response), build_prompt)


def test_program_in_response_is_the_child():
    [child] = make_mutator("Better:\n```python\ndef f(x):\n    return 2 * x\n```").propose(task(fn(SOURCE)))
    assert str(child.skeleton()) == "def f(x):\n    return 2 * x\n"
    assert child.skeleton()(3) == 6
    assert child.candidate is not None
    assert dict(child.candidate.meta) == {"engine": "rewrite", "model": "scripted"}


def test_response_without_program_is_a_failed_proposal():
    with pytest.raises(ValueError, match=r"The response has no program: 'I would rather not\.'"):
        make_mutator("I would rather not.").propose(task(fn(SOURCE)))


def test_repeated_program_is_a_failed_proposal():
    with pytest.raises(ValueError, match="repeats the program in the prompt"):
        make_mutator(f"```python\n{SOURCE}\n```").propose(task(fn(SOURCE)))


def test_custom_prompt_and_reader():
    prompts: list[str] = []

    def answer(step: int, call: str, prompt: str) -> str:
        prompts.append(prompt)
        return "x=1"

    rewrite = mutation.RewriteMutator(
        testing.ScriptedLLM(answer), lambda task: f"step {task.iteration}", mutation.ResponseReader("text")
    )
    [child] = rewrite.propose(task(fn(SOURCE)))
    assert prompts == ["step 1"]
    assert str(child.skeleton()) == "x=1\n"
