"""The edit mutator with prompts and learners: timing and interruptions do not change the run."""

from random import Random

from atoll import function, llm, mutation, store, testing
from atoll.programs.learners import AttemptHistory, CombinedLearner
from atoll.programs.prompt import ProgramPromptBuilder
from tests.mutation.test_edit_mutator import DIFF, SOURCE
from tests.mutation.test_syntax_mutator import evaluate_text


class TestEditProposer(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return mutation.EditMutator(model, ProgramPromptBuilder(store.MemoryBlobs(), "Return much."), crossover=0.3)

    def initial(self, model: llm.LLM) -> function.Function:
        skeleton = function.PyAstSkeleton(SOURCE)
        return function.DefaultFunction(function.DefaultFunctionProps(skeleton, candidate_evaluator=evaluate_text))

    def answer(self, step: int, call: str, prompt: str) -> str:
        number = Random(f"{step}/{call}/{prompt}").randint(0, 9)
        if number > 6:
            return "I cannot."
        rewrite = f"```python\ndef f(x):\n    return x * {number}\n```\n"
        return rewrite if number % 2 else DIFF.format(number)

    def learner(self) -> function.Learner:
        return CombinedLearner([mutation.MutatorBandit(["diff", "rewrite"]), AttemptHistory()])
