"""The editing engine with its prompts and its memory: one and the same run, whatever the timing and the cuts."""

from random import Random

from atoll import evaluation, function, llm, mutation, store, testing
from atoll.programs.attempts import Attempts
from atoll.programs.learners import Learners
from atoll.programs.prompt import Prompter
from tests.mutation.test_edit import DIFF, SOURCE
from tests.mutation.test_syntax import judged_by_its_text


class TestEvolvingPrograms(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.Edit(model, Prompter(store.MemoryBlobs(), "Return much."), crossover=0.3)

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(SOURCE)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, judge=judged_by_its_text))

    def answer(self, step: int, call: str, prompt: str) -> str:
        number = Random(f"{step}/{call}/{prompt}").randint(0, 9)
        if number > 6:
            return "I cannot."
        whole = f"```python\ndef f(x):\n    return x * {number}\n```\n"
        return whole if number % 2 else DIFF.format(number)

    def learner(self) -> function.Learner:
        return Learners([mutation.Bandit(["diff", "rewrite"]), Attempts()])


def test_later_advice_wins_and_all_are_taught():
    class Says:
        def __init__(self, **said: str) -> None:
            self.said, self.taught = said, 0

        def advise(self, rng: Random):
            return self.said

        def learn(self, outcome: function.Outcome) -> None:
            self.taught += 1

    one, two = Says(a="1", b="1"), Says(b="2")
    both = Learners([one, two])
    assert both.advise(Random(0)) == {"a": "1", "b": "2"}
    both.learn(function.Outcome(1, 0, (), {}, (), None, evaluation.FREE))
    assert (one.taught, two.taught) == (1, 1)
