"""One iteration on a worker thread, without the lock: propose, prefilter, evaluate, gate."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from threading import Lock
from types import MappingProxyType
from typing import Any, NamedTuple

from atoll import archipelago, errors, evaluation, function
from atoll.candidate import EMPTY, Candidate, content_hash, normalize_json
from atoll.cluster import records
from atoll.cluster.config import EvolverConfig
from atoll.evaluation import Cost, Evaluation
from atoll.gate import VERDICTS, Decision, Gate, Proposal
from atoll.journal import CallCache, CallLimit, Journal


class EvaluationCache:
    """Evaluations by content. Of two threads with the same content, the second waits for the first."""

    def __init__(self) -> None:
        self._evaluations: dict[str, tuple[float, Evaluation]] = {}
        self._locks: dict[str, Lock] = {}
        self._write_lock = Lock()

    def put(self, key: str, iteration: int, evaluation: Evaluation) -> None:
        """Stores an evaluation with the earliest iteration that has it."""
        with self._write_lock:
            self._evaluations[key] = (min(iteration, self._evaluations.get(key, (math.inf,))[0]), evaluation)

    def get(self, key: str, last_iteration: float) -> Evaluation | None:
        """Returns a known evaluation, if an iteration up to `last_iteration` has it."""
        iteration, evaluation = self._evaluations.get(key, (math.inf, None))
        return evaluation if iteration <= last_iteration else None

    def get_or_evaluate(self, key: str, evaluate: Callable[[], Evaluation]) -> Evaluation:
        """Returns the known evaluation, or evaluates while other threads with the same key wait."""
        with self._locks.setdefault(key, Lock()):  # one lock per content, removed after its evaluation
            if key not in self._evaluations:
                self._evaluations.setdefault(key, (math.inf, evaluate()))  # `put` sets the iteration
            self._locks.pop(key, None)
            return self._evaluations[key][1]


NO_EVALUATIONS_LEFT = "the evaluation budget is used up"


class IterationOutcome(NamedTuple):
    """A finished iteration. `observed` has new evaluations of population members, by candidate id."""

    pending: archipelago.PendingIteration
    children: Sequence[records.Child]
    failure: str | None
    observed: Sequence[tuple[str, Evaluation]]
    evaluations: int
    cost: Cost


@dataclass(slots=True)
class StoredCalls:
    """Records of an unfinished iteration, for recovery: responses by call; candidate, evaluation, `paid` by label."""

    responses: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    evaluated: dict[str, tuple[Candidate, Evaluation, bool]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerTools:
    """Objects that all iterations share. After the time of the run, they evaluate no further trials."""

    config: EvolverConfig
    proposer: function.Proposer
    journal: Journal
    cache: EvaluationCache
    is_time_over: Callable[[], bool]


class IterationWorker:
    """Runs one iteration. The same context, responses and evaluations give the same outcome."""

    def __init__(self, tools: WorkerTools, pending: archipelago.PendingIteration, stored_calls: StoredCalls) -> None:
        self._tools, self._pending, self._stored_calls = tools, pending, stored_calls
        self._island_config = tools.config.island_config
        self._last_visible_iteration = pending.applied_count if tools.config.ordered else math.inf
        self._own_evaluations: dict[str, Evaluation] = {}
        self._trial_labels = (f"d{index}" for index in itertools.count())
        self._evaluation_count, self._cost = 0, evaluation.ZERO_COST
        self._observed: list[tuple[str, Evaluation]] = []
        self._parents, self._call_limit = pending.selection.parents, CallLimit(pending.max_calls)

    def run(self) -> IterationOutcome:
        """Runs the iteration; exceptions of mutators, evaluators and gates become failures or rejections."""
        proposals, cost = self._call_with_cache("", self._propose)
        failure = f"the mutator raised {proposals}" if isinstance(proposals, errors.CaughtException) else None
        children = [self._process_child(*item) for item in proposals] if isinstance(proposals, list) else []
        pending = self._pending._replace(selection=self._pending.selection._replace(parents=self._parents))
        return IterationOutcome(pending, children, failure, self._observed, self._evaluation_count, self._cost + cost)

    def _propose(self) -> list[tuple[str, Candidate, function.Function]]:
        pending, selection = self._pending, self._pending.selection
        self._parents = tuple(self._ensure_evaluated(fn) for fn in selection.parents)
        context = function.ProposalContext(
            pending.island,
            pending.iteration,
            pending.applied_count,
            self._parents,
            selection.inspirations,
            MappingProxyType(dict(pending.advice)),
            Random(f"{self._tools.config.seed}/{pending.iteration}/propose"),
            pending.max_evaluations,
            self._evaluate_trials,
            self._observe,
        )
        children = self._tools.proposer.propose(context)
        return [(str(index), self._make_candidate(str(index), fn), fn) for index, fn in enumerate(children)]

    def _ensure_evaluated(self, parent: function.Function) -> function.Function:
        """Evaluates a parent without an evaluation: a version that was set from outside the run."""
        if parent.evaluation is not None:
            return parent
        result = self._evaluate_trial(parent) or evaluation.failed(NO_EVALUATIONS_LEFT)
        self._observe(parent, result)
        fitness = self._island_config.compute_fitness(self._pending.island, result)
        return parent.with_evaluation(
            records.require_candidate(parent), result, None if isinstance(fitness, errors.CaughtException) else fitness
        )

    def _evaluate_trials(self, trials: Sequence[function.Function]) -> Sequence[Evaluation]:
        results = (None if self._tools.is_time_over() else self._evaluate_trial(fn) for fn in trials)
        return [result or evaluation.failed(NO_EVALUATIONS_LEFT) for result in results]

    def _evaluate_trial(self, fn: function.Function) -> Evaluation | None:
        return self._get_evaluation(label := next(self._trial_labels), self._make_candidate(label, fn), fn)

    def _observe(self, fn: function.Function, result: Evaluation) -> None:
        self._observed.append((records.require_candidate(fn).id, evaluation.validate(result)))

    def _process_child(self, label: str, candidate: Candidate, fn: function.Function) -> records.Child:
        prefilter, gate = self._island_config.prefilter, self._island_config.gate
        if prefilter:
            decision = self._ask_gate(f"{label}/screen/", prefilter, candidate, None)
            if decision.verdict == "reject":
                return fn.with_evaluation(candidate), decision
        result = self._get_evaluation(label, candidate, fn)
        if result is None:
            return fn.with_evaluation(candidate), Decision("reject", NO_EVALUATIONS_LEFT, "budget")
        if result.failure is not None:
            return fn.with_evaluation(candidate, result), Decision("reject", result.failure, "judge")
        fitness = self._island_config.compute_fitness(self._pending.island, result)
        if isinstance(fitness, errors.CaughtException):
            return fn.with_evaluation(candidate, result), Decision("reject", f"the fitness raised {fitness}", "rank")
        return fn.with_evaluation(candidate, result, fitness), self._ask_gate(f"{label}/gate/", gate, candidate, result)

    def _make_candidate(self, label: str, fn: function.Function) -> Candidate:
        pending = self._pending
        # `derive_child` leaves the id empty. A candidate with an id is that of the parent, which a clone has kept.
        origin = fn.candidate if fn.candidate and not fn.candidate.id else None
        parents = (origin.parents if origin else ()) or tuple(
            records.require_candidate(parent).id for parent in pending.selection.parents
        )
        meta = normalize_json(origin.meta) if origin else EMPTY
        return Candidate(
            f"{pending.iteration}.{label}", str(fn.skeleton()), parents, pending.island, pending.iteration, meta
        )

    def _get_evaluation(self, label: str, candidate: Candidate, fn: function.Function) -> Evaluation | None:
        """Returns the evaluation from the journal, the cache or the evaluator; None if the iteration has none left."""
        stored = self._stored_calls.evaluated.get(label)
        if stored is not None and stored[0].content == candidate.content:
            return self._count_evaluation(candidate, stored[1], stored[2])
        key = content_hash(candidate.content)
        cached = self._own_evaluations.get(key) or self._tools.cache.get(key, self._last_visible_iteration)
        limit = self._pending.max_evaluations
        if cached is None and limit is not None and self._evaluation_count >= limit:
            return None
        result = cached or self._tools.cache.get_or_evaluate(key, lambda: self._evaluate(label, fn))
        self._tools.journal.write(records.make_evaluated_record(label, candidate, result, paid=cached is None))
        self._tools.cache.put(key, candidate.iteration, result)
        return self._count_evaluation(candidate, result, cached is None)

    def _count_evaluation(self, candidate: Candidate, result: Evaluation, paid: bool) -> Evaluation:
        self._own_evaluations[content_hash(candidate.content)] = result
        self._evaluation_count += paid * (1 + result.repeats)
        self._cost += result.cost if paid else evaluation.ZERO_COST
        return result

    def _evaluate(self, label: str, fn: function.Function) -> Evaluation:
        fn_copy = fn.clone(fn.skeleton())
        score, cost = self._call_with_cache(f"{label}/", fn_copy.evaluate)
        result = fn_copy.evaluation or evaluation.failed(f"evaluate() returned {score} without an evaluation")
        return replace(result, cost=result.cost + cost)

    def _call_with_cache[T](self, prefix: str, call: Callable[[], T]) -> tuple[T | errors.CaughtException, Cost]:
        """Runs untrusted code with a call cache. `prefix` separates the calls of evaluators and gates."""
        max_evaluations = self._pending.max_evaluations
        call_cache = CallCache(
            self._pending.iteration,
            self._pending.island,
            self._tools.journal,
            self._stored_calls.responses,
            prefix,
            self._call_limit,
            max_evaluations and max_evaluations - self._evaluation_count,
        )
        token = CallCache.current.set(call_cache)
        try:
            return errors.capture(call, reraise=(errors.JournalFailed, errors.SetupError)), call_cache.cost
        finally:
            CallCache.current.reset(token)

    def _ask_gate(self, prefix: str, gate: Gate, candidate: Candidate, result: Evaluation | None) -> Decision:
        known_fns = [*self._parents, *(fn for group in self._pending.selection.inspirations.values() for fn in group)]
        parent_evaluations = tuple(fn.evaluation for fn in self._parents if fn.evaluation)
        proposal = Proposal(
            candidate, result, parent_evaluations, tuple(records.require_candidate(fn) for fn in known_fns)
        )
        decision: object
        decision, cost = self._call_with_cache(prefix, lambda: gate(proposal))
        self._cost += cost
        if isinstance(decision, errors.CaughtException):
            return Decision("reject", f"the gate raised {decision}", "gate")
        if not (isinstance(decision, Decision) and decision.verdict in VERDICTS and isinstance(decision.reason, str)):
            return Decision("reject", f"the gate returned {decision!r:.80}, which is not a decision", "gate")
        return decision
