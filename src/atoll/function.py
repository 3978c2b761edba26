"""Functions that evolve, what proposes them and what judges them."""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from time import perf_counter
from typing import Any, Literal, NamedTuple, Protocol, Self, runtime_checkable

from atoll import errors, evaluation, gate, profiler
from atoll.candidate import EMPTY, JSON, Candidate
from atoll.evaluation import Cost, Evaluation

type Signature = str
type FunctionScore = float | None
type AnySkeleton = Skeleton[..., Any]
type Evaluator[**P, R, T] = Callable[[Skeleton[P, R], T], float]
# Where an evaluator meets a skeleton, here or in a jail: (evaluator, skeleton, inputs) -> results, or it raises.
type Runner = Callable[[Evaluator[..., Any, Any], Skeleton[..., Any], Sequence[Any]], Sequence[object]]


class Skeleton[**P, R](Protocol):
    """What can be called; its text is what evolves: `str(skeleton)`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


# Judging is slow, so it is announced before and after.
class OnEvaluate(NamedTuple):
    type: Literal["on_evaluate"]
    payload: list[Any]


class OnEvaluated(NamedTuple):
    type: Literal["on_evaluated"]
    payload: tuple[list[Any], FunctionScore]


type FunctionEvent = OnEvaluate | OnEvaluated


class Function(profiler.Pluggable[FunctionEvent], Protocol):
    """A candidate and what was found out about it, live, in one island.

    The first five methods are the seed's; the last three let it live on an island. Never changed after judging.
    """

    def signature(self) -> Signature:
        """Returns what it is like: functions of equal signature share a cluster.

        Raises:
            NotEvaluated: It was not evaluated.
        """

    def score(self) -> FunctionScore:
        """Returns the rank that its island gives it, or None after a failure.

        Raises:
            NotEvaluated: It was not evaluated.
        """

    def skeleton(self) -> Skeleton[..., Any]: ...

    def evaluate(self) -> FunctionScore:
        """Judges it, once.

        Raises:
            AlreadyEvaluated: It was evaluated before.
        """

    def clone(self, new_skeleton: Skeleton[..., Any] | None = None) -> "Function":
        """Returns a copy; with a new skeleton the copy is a draft that nobody has judged."""

    @property
    def candidate(self) -> Candidate | None:
        """What was proposed; None for a draft."""

    @property
    def evaluation(self) -> Evaluation | None:
        """What was found out; None before it was judged."""

    def with_evaluation(
        self, candidate: Candidate, result: Evaluation | None = None, fitness: float | None = None
    ) -> "Function":
        """Returns a copy with this candidate and evaluation, whose score is `rank`."""


# Mutation is slow, so it is announced before and after.
class OnMutate(NamedTuple):
    type: Literal["on_mutate"]
    payload: list[Function]


class OnMutated(NamedTuple):
    type: Literal["on_mutated"]
    payload: tuple[list[Function], Function]


type MutationEngineEvent = OnMutate | OnMutated


@runtime_checkable
class MutationEngine(profiler.Pluggable[MutationEngineEvent], Protocol):
    """Makes one new function from several."""

    def mutate(self, fn_list: list[Function]) -> Function:
        """Returns a clone of one of the functions with a new skeleton; one that raises is a failed proposal.

        It has no dice of its own step: an engine that draws and should repeat itself is a `Proposer`.
        """


class CandidateEvaluator(Protocol):
    """Finds out how good a draft is."""

    def __call__(self, skeleton: Skeleton[..., Any], /) -> Evaluation:
        """Scores one draft; never raises for a bad one; called from several threads at once."""


class ProposalContext(NamedTuple):
    """All that a proposal may know; an engine reads nothing else that changes: no clock, no global random.

    Attributes:
        island: Index of the island that asks.
        step: Number of this step.
        seen: Steps applied when it was issued; a shared index ignores what is newer.
        parents: What to start from, worst first.
        others: More to look at, by role: "top", "diverse", "failed".
        advice: What the learner and the settings say for this step.
        rng: Random numbers of this step alone.
        allowance: How many evaluations this step may use, or None.
        judge: Judges drafts in place, with memory, budget and journal.
        observe: Replaces the standing evaluation of a kept function, when this step is applied.
    """

    island: int
    iteration: int
    applied_count: int
    parents: Sequence[Function]
    inspirations: Mapping[str, Sequence[Function]]
    advice: Mapping[str, JSON]
    rng: Random
    max_evaluations: int | None
    evaluate: Callable[[Sequence[Function]], Sequence[Evaluation]]
    update_evaluation: Callable[[Function, Evaluation], None]


@runtime_checkable
class Proposer(Protocol):
    """Makes children: an LLM, a syntax engine, a tuner, a reflector."""

    def propose(self, context: ProposalContext) -> Sequence[Function]:
        """Returns 0 to n clones of the parents with new skeletons; one that raises is a failed proposal.

        A function of the task and of what its ledger bought: the same task gives the same children. Makes no
        threads of its own. Called from several worker threads at once.
        """


class IterationResult(NamedTuple):
    """What became of a step, for learners.

    Attributes:
        failure: Why there are no children; None if the engine returned.
        spent: What the replies and judgements of this step cost.
    """

    iteration: int
    island: int
    parents: Sequence[Function]
    advice: Mapping[str, JSON]
    children: Sequence[tuple[Function, gate.Decision]]
    failure: str | None
    cost: Cost


class Learner(Protocol):
    """The only mutable state of an engine: bandits, notes, the choice of a model."""

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Says what the next step should do; called under the lock when it is issued, and recorded."""

    def learn(self, result: IterationResult) -> None:
        """Takes in one applied step; called under the lock, once each, in order, and again in order on resume."""


class EngineProposer:
    """A mutation engine as a proposer of one child."""

    def __init__(self, engine: MutationEngine) -> None:
        self._engine = engine

    def propose(self, context: ProposalContext) -> Sequence[Function]:
        return [self._engine.mutate(list(context.parents))]


def as_proposer(engine: MutationEngine | Proposer) -> Proposer:
    """Returns the engine as a proposer.

    Raises:
        SetupError: It can neither propose nor mutate.
    """
    if not isinstance(engine, Proposer | MutationEngine):
        raise errors.SetupError(f"{engine!r:.80} is no engine: it needs a method propose(task) or mutate(fn_list).")
    return engine if isinstance(engine, Proposer) else EngineProposer(engine)


def derive_child(
    parent: Function, new_skeleton: AnySkeleton, *, parents: Sequence[Function] = (), **meta: JSON
) -> Function:
    """Returns a clone with a note of how it was made; without `parents` all of the task's parents count."""
    ids = tuple(fn.candidate.id for fn in parents if fn.candidate)
    return parent.clone(new_skeleton).with_evaluation(Candidate("", str(new_skeleton), ids, meta=meta or EMPTY))


def run_in_process(
    evaluator: Evaluator[..., Any, Any], skeleton: AnySkeleton, inputs: Sequence[Any]
) -> Sequence[object]:
    """Runs evaluator and skeleton in this process: for code you trust."""
    return [evaluator(skeleton, input_value) for input_value in inputs]


@dataclass(frozen=True, slots=True)
class PerInputEvaluator:
    """Judges by an evaluator of (skeleton, one input), as the seed does: the score is the mean over the inputs."""

    evaluator: Evaluator[..., Any, Any]
    inputs: Sequence[Any]
    run: Runner = run_in_process
    reduce: Callable[[Sequence[float]], float] = fmean

    def __post_init__(self) -> None:
        if not self.inputs:
            raise errors.SetupError("There are no evaluation inputs: give at least one.")

    def __call__(self, skeleton: Skeleton[..., Any]) -> Evaluation:
        started_at = perf_counter()
        result = errors.capture(lambda: self._evaluate(skeleton))
        cost = Cost(seconds=perf_counter() - started_at)
        result = evaluation.failed(str(result)) if isinstance(result, errors.CaughtException) else result
        return replace(result, cost=cost)

    def _evaluate(self, skeleton: Skeleton[..., Any]) -> Evaluation:
        values = self.run(self.evaluator, skeleton, self.inputs)
        evaluations = [evaluation.validate(value) for _, value in zip(self.inputs, values, strict=True)]
        for index, each in enumerate(evaluations):
            if each.failure is not None:
                return evaluation.failed(f"input {index}: {each.failure}")
        scores = tuple(input_evaluation.score for input_evaluation in evaluations if input_evaluation.score is not None)
        return evaluation.validate(Evaluation(self.reduce(scores), scores))


class DefaultFunctionProps(NamedTuple):
    """What a `DefaultFunction` is made of.

    Attributes:
        evaluation_inputs: What the evaluator is given, one at a time.
        evaluator: Scores (skeleton, one input).
        judge: Judges the skeleton as a whole, instead of the two above.
    """

    skeleton: Skeleton[..., Any]
    evaluation_inputs: Sequence[Any] = ()
    evaluator: Evaluator[..., Any, Any] | None = None
    candidate_evaluator: CandidateEvaluator | None = None


class DefaultFunction:
    """A function by its skeleton and its judge; immutable but for the one evaluation."""

    __slots__ = (
        "__weakref__",
        "_inputs",
        "_candidate_evaluator",
        "_profilers",
        "_score",
        "_skeleton",
        "candidate",
        "evaluation",
    )

    def __init__(self, props: DefaultFunctionProps) -> None:
        candidate_evaluator = props.candidate_evaluator
        if candidate_evaluator is None:
            if props.evaluator is None:
                raise errors.SetupError("A function needs an evaluator with inputs, or a judge: give one of them.")
            candidate_evaluator = PerInputEvaluator(props.evaluator, props.evaluation_inputs)
        self._skeleton, self._candidate_evaluator, self._inputs = (
            props.skeleton,
            candidate_evaluator,
            props.evaluation_inputs,
        )
        self._profilers = profiler.Profilers[FunctionEvent]()
        self.candidate: Candidate | None = None
        self.evaluation: Evaluation | None = None
        self._score: float | None = None

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[FunctionEvent]) -> profiler.Remove:
        """Registers a profiler with this function and all its clones."""
        return self._profilers.use(profiler_fn)

    def skeleton(self) -> Skeleton[..., Any]:
        return self._skeleton

    def score(self) -> FunctionScore:
        self._require_evaluation()
        return self._score

    def signature(self) -> Signature:
        return str(self._require_evaluation().scores)

    def evaluate(self) -> FunctionScore:
        if self.evaluation is not None:
            raise errors.AlreadyEvaluated("It was evaluated before: clone it with its skeleton to judge it again.")
        if self._profilers:
            self._profilers.emit(OnEvaluate("on_evaluate", list(self._inputs)))
        result = errors.capture(
            lambda: self._candidate_evaluator(self._skeleton), reraise=(errors.JournalFailed, errors.SetupError)
        )
        if isinstance(result, errors.CaughtException):
            result = evaluation.failed(f"the judge raised {result}")
        self.evaluation = evaluation.validate(result)
        self._score = self.evaluation.score
        if self._profilers:
            self._profilers.emit(OnEvaluated("on_evaluated", (list(self._inputs), self._score)))
        return self._score

    def clone(self, new_skeleton: Skeleton[..., Any] | None = None) -> Self:
        if new_skeleton is None:
            return self._copy(self._skeleton, self.candidate, self.evaluation, self._score)
        return self._copy(new_skeleton, None, None, None)

    def with_evaluation(
        self, candidate: Candidate, result: Evaluation | None = None, fitness: float | None = None
    ) -> Self:
        return self._copy(self._skeleton, candidate, result, fitness)

    def _copy(
        self, skeleton: Any, candidate: Candidate | None, result: Evaluation | None, fitness: float | None
    ) -> Self:
        copy = object.__new__(type(self))
        copy._candidate_evaluator, copy._inputs, copy._profilers = (
            self._candidate_evaluator,
            self._inputs,
            self._profilers,
        )
        copy._skeleton, copy.candidate, copy.evaluation, copy._score = skeleton, candidate, result, fitness
        return copy

    def _require_evaluation(self) -> Evaluation:
        if self.evaluation is None:
            raise errors.NotEvaluated("This function was not evaluated yet: call evaluate() first.")
        return self.evaluation


def get_fitness(fn: Function) -> float:
    """Returns a function's score for comparing: no score is below every score."""
    score = fn.score()
    return -math.inf if score is None else score


class PyAstSkeleton:
    """A Python function by its source; parsed when it is first called, so that holding untrusted code runs nothing."""

    __slots__ = ("_call", "_names", "_source")

    def __init__(self, source: str, names: Mapping[str, Any] = EMPTY) -> None:
        self._source, self._names = source, names
        self._call: Callable[..., Any] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._call = self._call or self._compile()
        return self._call(*args, **kwargs)

    def __str__(self) -> str:
        return self._source

    def with_text(self, text: str) -> "PyAstSkeleton":
        return PyAstSkeleton(text, self._names)

    def _compile(self) -> Any:
        tree = ast.parse(self._source)
        name = next((node.name for node in tree.body if isinstance(node, ast.FunctionDef)), None)
        if name is None:
            raise ValueError("the source defines no function")
        namespace = dict(self._names)
        exec(compile(tree, "<skeleton>", "exec"), namespace)
        return namespace[name]


@runtime_checkable
class Rewritable(Protocol):
    """A skeleton that makes another one of its kind from a text, with whatever else it needs."""

    def with_text(self, text: str) -> Skeleton[..., Any]: ...


class Text(str):
    """A text that evolves: a prompt, a plan, a value as JSON. Calling it returns the text."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)
