"""Optimizer for DSPy programs: evolves the instructions of all predictors, then chooses few-shot demos by validation.

optimizer = AtollOptimizer(metric, max_metric_calls=300)
better_program = optimizer.compile(program, trainset=trainset, valset=valset)
"""

import contextvars
import statistics
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

import dspy
from dspy.teleprompt import BootstrapFewShot, Teleprompter

from atoll import llm
from atoll.evaluation import Cost
from atoll.evolve import Result, evolve

_DEFAULT_PURPOSE = "The texts are the instructions of the steps of a program that calls a language model."


class AtollOptimizer(Teleprompter):  # type: ignore[misc]  # DSPy ships no types
    """Optimizes a DSPy program with `atoll.evolve`.

    Args:
        metric: Metric of DSPy: (example, prediction, trace) -> number, bool, or an object with `score` and `feedback`.
        max_metric_calls: Most calls of the metric, those for demos included.
        llm: LLM that writes instructions: a `dspy.LM`, or what `atoll.evolve` takes; None: the LM of `dspy.settings`.
        num_demo_sets: Sets of few-shot demos that are compared on the validation set; 0: no demos.
        max_demos: Demos of a predictor.
        objective: Purpose of the program in words, for the LLM.
        seed: Random seed.
        options: Further options of `atoll.evolve`, such as `workers`, `target`, `store` and `verbose`.

    Attributes:
        result: Result of the evolution of the instructions, after `compile`.
    """

    def __init__(
        self,
        metric: Callable[..., Any],
        *,
        max_metric_calls: int = 300,
        llm: Any = None,
        num_demo_sets: int = 3,
        max_demos: int = 4,
        objective: str = "",
        seed: int = 0,
        **options: Any,
    ) -> None:
        super().__init__()
        self.metric, self.max_metric_calls, self.llm = metric, max_metric_calls, llm
        self.num_demo_sets, self.max_demos, self.objective, self.seed = num_demo_sets, max_demos, objective, seed
        self.options = options
        self.result: Result | None = None

    def compile(
        self, student: Any, *, trainset: list[Any], teacher: Any = None, valset: list[Any] | None = None, **kwargs: Any
    ) -> Any:
        """Returns a copy of the program with better instructions and, if they help, demos.

        Raises:
            SetupError: The program has no instructions, or the budget is too small.
        """
        validation = valset or trainset
        num_sets = min(self.num_demo_sets, self.max_metric_calls // (4 * len(validation)))
        initial = {name: predictor.signature.instructions for name, predictor in student.named_predictors()}
        context = contextvars.copy_context()  # settings of DSPy are those of this thread

        def evaluate(texts: Mapping[str, str], example: Any) -> dict[str, Any]:
            return context.copy().run(self._score, _with_instructions(student, texts), example)

        self.result = evolve(
            initial,
            evaluate,
            data=trainset,
            validation=valset,
            llm=self._get_llm(context),
            budget=f"{self.max_metric_calls - num_sets * len(validation)}evals",
            objective=self.objective or _DEFAULT_PURPOSE,
            seed=self.seed,
            **self.options,
        )
        best = _with_instructions(student, self.result.best)
        program = self._choose_demos(best, trainset, validation, num_sets, self.result.score)
        program._compiled = True
        return program

    def _score(self, program: Any, example: Any) -> dict[str, Any]:
        """Returns score, output, expected values and feedback of one example."""
        try:
            prediction = program(**example.inputs())
        except Exception as error:  # a response that does not parse is a failure of the instructions
            return {"score": 0.0, "feedback": f"The program failed: {type(error).__name__}: {error}"[:1000]}
        value = self.metric(example, prediction, None)
        score = float(getattr(value, "score", value) or 0.0)
        expected = dict(example.labels().items())
        feedback = str(getattr(value, "feedback", "") or "")
        return {"score": score, "output": dict(prediction), "expected": expected, "feedback": feedback}

    def _get_llm(self, context: contextvars.Context) -> Any:
        model = self.llm if self.llm is not None else dspy.settings.lm
        if not isinstance(model, dspy.BaseLM):
            return model

        def ask(prompt: str) -> llm.Response:
            texts = context.copy().run(model, str(prompt))
            usage = (model.history[-1].get("usage") or {}) if getattr(model, "history", None) else {}
            tokens = (int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))
            usd = float((model.history[-1].get("cost") or 0.0) if getattr(model, "history", None) else 0.0)
            first = texts[0]
            text = first if isinstance(first, str) else str(first.get("text", ""))
            return llm.Response(text, str(model.model), Cost(0.0, *tokens, usd))

        return ask

    def _choose_demos(
        self, program: Any, trainset: Sequence[Any], validation: Sequence[Any], num_sets: int, score: float
    ) -> Any:
        """Returns the program with the demos that score best on the validation set; without demos if none helps."""
        best, best_score = program, score
        for number in range(num_sets):
            examples = list(trainset)
            Random(f"{self.seed}/demos/{number}").shuffle(examples)
            bootstrap = BootstrapFewShot(
                metric=lambda example, prediction, trace=None: self._is_right(example, prediction),
                max_bootstrapped_demos=self.max_demos,
                max_labeled_demos=self.max_demos,
                max_rounds=1,
            )
            candidate = bootstrap.compile(program.deepcopy(), trainset=examples[: 2 * self.max_demos])
            candidate_score = statistics.fmean(self._score(candidate, example)["score"] for example in validation)
            if candidate_score > best_score:
                best, best_score = candidate, candidate_score
        return best

    def _is_right(self, example: Any, prediction: Any) -> bool:
        value = self.metric(example, prediction, None)
        return float(getattr(value, "score", value) or 0.0) >= 1.0


def _with_instructions(student: Any, texts: Mapping[str, str]) -> Any:
    """Returns a copy of a program with other instructions."""
    program = student.deepcopy()
    for name, predictor in program.named_predictors():
        predictor.signature = predictor.signature.with_instructions(texts[name])
    return program
