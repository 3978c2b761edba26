"""Interfaces of the search: functions that evolve, proposers, evaluators and learners."""

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
# Runs an evaluator on a skeleton, in this process or in a sandbox: (evaluator, skeleton, inputs) -> results.
type Runner = Callable[[Evaluator[..., Any, Any], Skeleton[..., Any], Sequence[Any]], Sequence[object]]


class Skeleton[**P, R](Protocol):
    """A callable whose text, `str(skeleton)`, evolves."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R: ...


# Evaluation is slow, so events are emitted before and after it.
class OnEvaluate(NamedTuple):
    type: Literal["on_evaluate"]
    payload: list[Any]


class OnEvaluated(NamedTuple):
    type: Literal["on_evaluated"]
    payload: tuple[list[Any], FunctionScore]


type FunctionEvent = OnEvaluate | OnEvaluated


class Function(profiler.Pluggable[FunctionEvent], Protocol):
    """A candidate on an island, with its evaluation. Immutable after its evaluation."""

    def signature(self) -> Signature:
        """Returns its signature; functions with equal signatures share a cluster.

        Raises:
            NotEvaluated: It was not evaluated.
        """

    def score(self) -> FunctionScore:
        """Returns its fitness on its island, or None after a failure.

        Raises:
            NotEvaluated: It was not evaluated.
        """

    def skeleton(self) -> Skeleton[..., Any]: ...

    def evaluate(self) -> FunctionScore:
        """Evaluates it, once.

        Raises:
            AlreadyEvaluated: It was evaluated before.
        """

    def clone(self, new_skeleton: Skeleton[..., Any] | None = None) -> "Function":
        """Returns a copy. With a new skeleton the copy is not evaluated yet."""

    @property
    def candidate(self) -> Candidate | None:
        """The candidate; None before it has an id."""

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation; None before `evaluate`."""

    def with_evaluation(
        self, candidate: Candidate, result: Evaluation | None = None, fitness: float | None = None
    ) -> "Function":
        """Returns a copy with this candidate, evaluation and fitness."""


# Mutation is slow, so events are emitted before and after it.
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
        """Returns a clone of one of the functions with a new skeleton. An exception is a failed proposal.

        It gets no random generator. Implement `Proposer` instead to make random choices that repeat with the seed.
        """


class CandidateEvaluator(Protocol):
    """Evaluates candidates."""

    def __call__(self, skeleton: Skeleton[..., Any], /) -> Evaluation:
        """Evaluates one candidate. Never raises for a bad one. Called from several threads at once."""


class ProposalContext(NamedTuple):
    """Input of a proposer. A proposer reads no other changing state: no clock, no global random generator.

    Attributes:
        island: Index of the island.
        iteration: Number of this iteration.
        applied_count: Iterations applied when it was issued; newer results must be ignored.
        parents: Parents, worst first.
        inspirations: Further candidates by role: "top", "diverse", "failed".
        advice: Settings and the learner's advice for this iteration.
        rng: Random generator of this iteration.
        max_evaluations: Evaluations that this iteration may use, or None.
        evaluate: Evaluates trials at once, with cache, budget and journal.
        update_evaluation: Replaces the evaluation of a population member when this iteration is applied.
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
    """Makes children: an LLM, a syntax mutator, a tuner, a reflector."""

    def propose(self, context: ProposalContext) -> Sequence[Function]:
        """Returns any number of clones of the parents with new skeletons. An exception is a failed proposal.

        The same context and the same LLM responses give the same children. Starts no threads. Called from several
        worker threads at once.
        """


class IterationResult(NamedTuple):
    """Result of an iteration, for learners.

    Attributes:
        failure: Reason for missing children; None if the proposer returned.
        cost: Cost of the LLM calls and evaluations.
    """

    iteration: int
    island: int
    parents: Sequence[Function]
    advice: Mapping[str, JSON]
    children: Sequence[tuple[Function, gate.Decision]]
    failure: str | None
    cost: Cost


class Learner(Protocol):
    """Mutable state of a search: bandits, notes, the choice of an LLM."""

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Returns advice for the next iteration. Called under the lock when it is issued, and recorded."""

    def learn(self, result: IterationResult) -> None:
        """Learns from one applied iteration. Called under the lock, once each, in order, and again on resume."""


class EngineProposer:
    """Adapts a mutation engine to a proposer of one child."""

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
        raise errors.SetupError(f"{engine!r:.80} is not a mutator: add a method propose(context) or mutate(fn_list).")
    return engine if isinstance(engine, Proposer) else EngineProposer(engine)


def derive_child(
    parent: Function, new_skeleton: AnySkeleton, *, parents: Sequence[Function] = (), **meta: JSON
) -> Function:
    """Returns a clone with notes on its origin. Without `parents`, all parents of the context count."""
    ids = tuple(fn.candidate.id for fn in parents if fn.candidate)
    return parent.clone(new_skeleton).with_evaluation(Candidate("", str(new_skeleton), ids, meta=meta or EMPTY))


def run_in_process(
    evaluator: Evaluator[..., Any, Any], skeleton: AnySkeleton, inputs: Sequence[Any]
) -> Sequence[object]:
    """Runs the evaluator and the skeleton in this process, for trusted code."""
    return [evaluator(skeleton, input_value) for input_value in inputs]


@dataclass(frozen=True, slots=True)
class PerInputEvaluator:
    """Evaluates with a function of (skeleton, one input); the score is the mean over the inputs."""

    evaluator: Evaluator[..., Any, Any]
    inputs: Sequence[Any]
    run: Runner = run_in_process
    reduce: Callable[[Sequence[float]], float] = fmean

    def __post_init__(self) -> None:
        if not self.inputs:
            raise errors.SetupError("evaluation_inputs is empty: give at least one input.")

    def __call__(self, skeleton: Skeleton[..., Any]) -> Evaluation:
        started_at = perf_counter()
        result = errors.capture(lambda: self._evaluate(skeleton))
        result = evaluation.failed(str(result)) if isinstance(result, errors.CaughtException) else result
        return replace(result, cost=Cost(seconds=perf_counter() - started_at))

    def _evaluate(self, skeleton: Skeleton[..., Any]) -> Evaluation:
        values = self.run(self.evaluator, skeleton, self.inputs)
        evaluations = [evaluation.validate(value) for _, value in zip(self.inputs, values, strict=True)]
        for index, result in enumerate(evaluations):
            if result.failure is not None:
                return evaluation.failed(f"input {index}: {result.failure}")
        scores = tuple(result.score for result in evaluations if result.score is not None)
        return evaluation.validate(Evaluation(self.reduce(scores), scores))


class DefaultFunctionProps(NamedTuple):
    """Parts of a `DefaultFunction`.

    Attributes:
        evaluation_inputs: Inputs of the evaluator, one per call.
        evaluator: Scores (skeleton, one input).
        candidate_evaluator: Evaluates the full skeleton, instead of the two above.
    """

    skeleton: Skeleton[..., Any]
    evaluation_inputs: Sequence[Any] = ()
    evaluator: Evaluator[..., Any, Any] | None = None
    candidate_evaluator: CandidateEvaluator | None = None


class DefaultFunction:
    """A function with a skeleton and an evaluator."""

    __slots__ = ("__weakref__", "_evaluator", "_inputs", "_profilers", "_score", "_skeleton", "candidate", "evaluation")

    def __init__(self, props: DefaultFunctionProps) -> None:
        candidate_evaluator = props.candidate_evaluator
        if candidate_evaluator is None:
            if props.evaluator is None:
                raise errors.SetupError("Pass an evaluator with evaluation_inputs, or a candidate_evaluator.")
            candidate_evaluator = PerInputEvaluator(props.evaluator, props.evaluation_inputs)
        self._skeleton, self._inputs = props.skeleton, props.evaluation_inputs
        self._evaluator = candidate_evaluator
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
            raise errors.AlreadyEvaluated("This function was evaluated before: clone it with its skeleton first.")
        if self._profilers:
            self._profilers.emit(OnEvaluate("on_evaluate", list(self._inputs)))
        result = errors.capture(
            lambda: self._evaluator(self._skeleton), reraise=(errors.JournalFailed, errors.SetupError)
        )
        if isinstance(result, errors.CaughtException):
            result = evaluation.failed(f"the evaluator raised {result}")
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
        copy._inputs, copy._profilers = self._inputs, self._profilers
        copy._evaluator = self._evaluator
        copy._skeleton, copy.candidate = skeleton, candidate
        copy.evaluation, copy._score = result, fitness
        return copy

    def _require_evaluation(self) -> Evaluation:
        if self.evaluation is None:
            raise errors.NotEvaluated("This function was not evaluated yet: call evaluate() first.")
        return self.evaluation


def get_fitness(fn: Function) -> float:
    """Returns a function's fitness for comparisons; a missing one is below every other."""
    score = fn.score()
    return -math.inf if score is None else score


class PyAstSkeleton:
    """A Python function as source. It is compiled on the first call; until then untrusted code does not run."""

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
            raise ValueError("the source does not define a function")
        namespace = dict(self._names)
        exec(compile(tree, "<skeleton>", "exec"), namespace)
        return namespace[name]


@runtime_checkable
class Rewritable(Protocol):
    """A skeleton that can make another of its kind from a text."""

    def with_text(self, text: str) -> Skeleton[..., Any]: ...


class Text(str):
    """A text that evolves, such as a prompt, a plan or JSON. Calling it returns the text."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)
