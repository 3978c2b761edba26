"""The engine that asks a model for a whole program."""

import functools
from random import Random

import pytest

from atoll import function, llm, mutation, testing
from atoll.mutation import text_blocks
from tests.mutation.tasks import fn, task
from tests.mutation.test_syntax import judged_by_its_text

SOURCE = "def f(x):\n    return x\n"
ask = functools.partial(mutation.build_program_prompt, task_description="Return much.")


class TestRewrite(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.RewriteMutator(model, ask)

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(SOURCE)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=judged_by_its_text))

    def answer(self, step: int, call: str, prompt: str) -> str:
        number = Random(f"{step}/{call}/{prompt}").randint(0, 9)
        return "I cannot." if number == 9 else f"Here:\n```python\ndef f(x):\n    return x * {number}\n```\n"


def engine(reply: str) -> mutation.RewriteMutator:
    return mutation.RewriteMutator(testing.ScriptedLLM(lambda step, call, prompt: reply), ask)


def test_the_program_of_the_reply_is_the_child():
    [child] = engine("Better:\n```python\ndef f(x):\n    return 2 * x\n```").propose(task(fn(SOURCE)))
    assert str(child.skeleton()) == "def f(x):\n    return 2 * x\n"
    assert child.skeleton()(3) == 6
    assert child.candidate is not None
    assert dict(child.candidate.meta) == {"engine": "rewrite", "model": "scripted"}


def test_a_reply_without_a_program_is_a_failed_proposal():
    with pytest.raises(ValueError, match=r"scripted replied without a program: 'I would rather not\.'"):
        engine("I would rather not.").propose(task(fn(SOURCE)))


def test_the_same_program_again_is_a_failed_proposal():
    with pytest.raises(ValueError, match="the program that it was shown"):
        engine(f"```python\n{SOURCE}\n```").propose(task(fn(SOURCE)))


def test_the_prompt_and_the_reader_are_plugs():
    asked: list[str] = []

    def answer(step: int, call: str, prompt: str) -> str:
        asked.append(prompt)
        return "x=1"

    rewrite = mutation.RewriteMutator(
        testing.ScriptedLLM(answer), lambda task: f"step {task.iteration}", lambda reply: reply
    )
    [child] = rewrite.propose(task(fn(SOURCE)))
    assert asked == ["step 1"]
    assert str(child.skeleton()) == "x=1"


class TestMarkers:
    PARENT = "import os\n# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n\ndef score():\n    return x\n"

    def test_what_stands_outside_of_them_stays_whatever_the_reply_says(self):
        child = self.PARENT.replace("x = 1", "x = 2").replace("return x", "return 10**9").replace("import os\n", "")
        assert text_blocks.splice(self.PARENT, child) == self.PARENT.replace("x = 1", "x = 2")

    def test_a_reply_without_them_is_refused(self):
        with pytest.raises(ValueError, match="0 EVOLVE-BLOCKs and the program has 1"):
            text_blocks.splice(self.PARENT, "x = 2\n")

    def test_a_program_without_them_is_replaced_as_a_whole(self):
        assert text_blocks.splice("x = 1\n", "y = 2\n") == "y = 2\n"

    def test_several_blocks_are_replaced_in_their_order(self):
        parent = self.PARENT + self.PARENT
        child = parent.replace("x = 1", "x = 3", 1)
        assert text_blocks.splice(parent, child) == child
