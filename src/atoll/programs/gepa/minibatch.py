"""Splits of a data set (training, validation, sealed test), and minibatches as in GEPA, which a child must pass."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from threading import Lock
from typing import Any

from atoll import control, errors, evaluation, function, gate
from atoll.candidate import EMPTY, JSON, Candidate
from atoll.mutation.combined import REJECTED_KEY
from atoll.programs.gepa.dataset_evaluator import TRAIN, VALIDATION, CallMemory, Minibatch, format_instance
from atoll.programs.gepa.text_parts import BATCH_KEY

type Part = Sequence[Any] | float | None


@dataclass(frozen=True, slots=True)
class DatasetSplit:
    """Data that a search sees; it never includes the test set.

    Attributes:
        train: Instances for proposals and minibatches.
        validation: Instances whose mean score is the candidate's score.
    """

    train: Sequence[Any]
    validation: Sequence[Any]

    @property
    def is_shared(self) -> bool:
        """True if the training instances are also the validation set."""
        return self.train is self.validation

    @property
    def has_answers(self) -> bool:
        """True if training instances may be shown with their answers: they have several fields and are not scored."""
        return not self.is_shared and all(isinstance(item, Mapping) and len(item) > 1 for item in self.train)

    def make_batches(self, size: int, seed: int) -> Sequence[tuple[int, ...]]:
        """Returns minibatches of the training instances, by index.

        They stay the same during a run, so a parent is evaluated on each at most once.
        """
        indices = list(range(len(self.train)))
        Random(f"{seed}/batches").shuffle(indices)
        batches = [tuple(sorted(indices[start : start + size])) for start in range(0, len(indices), size)]
        return [batch for batch in batches if len(batch) == min(size, len(indices))]


class SealedTestSet:
    """A test set that opens once. A search never holds it; the caller opens it after the run."""

    def __init__(self, instances: Sequence[Any]) -> None:
        self.__instances, self.__is_open = list(instances), False

    def __len__(self) -> int:
        return len(self.__instances)

    def open(self) -> Sequence[Any]:
        """Returns the instances.

        Raises:
            Conflict: It was opened before.
        """
        if self.__is_open:
            raise errors.Conflict("The test set was scored before: a second time would make it part of the search.")
        self.__is_open = True
        return self.__instances


def split_dataset(
    data: Sequence[Any], validation: Part = None, test: Part = None, *, seed: int = 0
) -> tuple[DatasetSplit, SealedTestSet | None]:
    """Splits a data set.

    Args:
        data: The instances.
        validation: Separate instances, or a share of `data`; None: the training instances.
        test: Separate instances, or a share of `data`; None: no test set.
        seed: Random seed of the split.

    Raises:
        SetupError: The data is not a sequence, a share is not between 0 and 1, or a part is empty.
    """
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise errors.SetupError(f"data is {data!r:.60}. Pass a list of instances.")
    remaining = list(data)
    if any(isinstance(part, float) for part in (validation, test)):
        Random(f"{seed}/split").shuffle(remaining)
    if not (total := len(remaining)):
        raise errors.SetupError("data has no instances: pass at least two, better twenty.")
    test_instances, remaining = _take_part("test", test, remaining, total)
    validation_instances, remaining = _take_part("validation", validation, remaining, total)
    if not remaining:
        raise errors.SetupError(f"None of {total} instances is left for training: pass more data, or smaller shares.")
    split = DatasetSplit(remaining, remaining if validation_instances is None else validation_instances)
    return split, None if test_instances is None else SealedTestSet(test_instances)


def _take_part(name: str, part: Part, remaining: list[Any], total: int) -> tuple[Sequence[Any] | None, list[Any]]:
    """Returns a part and the remaining instances."""
    if part is None:
        return None, remaining
    if not isinstance(part, int | float):
        if not len(part):
            raise errors.SetupError(f"{name} is empty: pass instances, a share such as 0.3, or leave it out.")
        return list(part), remaining
    if not 0 < part < 1:
        raise errors.SetupError(f"{name} is {part}: pass instances, or a share between 0 and 1.")
    count = max(1, round(part * total))
    return remaining[:count], remaining[count:]


MAX_BATCHES = 3  # evaluated to find one with a failure
_TIE_SHARE = 4  # a tie is decided on this fraction of the validation set first: one in four
_SMALL_VALIDATION = 12  # up to this number of instances the whole validation set decides a second tie
_MAX_ANSWERS, _MAX_ANSWER_CHARS = 6, 600  # further instances shown with their answers, without results


def find_perfect_score(scores: Sequence[float], target: float | None) -> float | None:
    """Returns the highest score of an instance: the target, or 1 if all scores are between 0 and 1; None: unknown."""
    if target is not None:
        return target
    return 1.0 if scores and all(0 <= score <= 1 for score in scores) else None


@dataclass(frozen=True, slots=True)
class MinibatchProposer:
    """Shows a proposer the parent's results on a minibatch, and compares each child with the parent there.

    Attributes:
        proposer: Makes the children.
        data: The training and the validation instances.
        batches: Minibatches of training instances, used if the validation set is separate.
        size: Instances in a minibatch.
        target: Highest score of an instance, if the user named one.
    """

    proposer: function.Proposer
    data: DatasetSplit
    batches: Sequence[Sequence[int]]
    size: int = 3
    target: float | None = None

    @property
    def max_calls(self) -> int:
        """Highest number of evaluator calls of an iteration with one child."""
        if self.data.is_shared:
            return len(self.data.validation)  # minibatches are parts of it
        return len(self.data.validation) + (MAX_BATCHES + 1) * min(self.size, len(self.data.train))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children; those that are worse on the minibatch are marked as rejected.

        Returns none, without an LLM call, if the parent has no failure on the minibatches.
        """
        parent = context.parents[-1]
        batch, before = self._find_batch(context, parent)
        if not batch or before is None or parent.evaluation is None or parent.candidate is None:
            return []
        failure = f"{before.failure}\n\n" if before.failure else ""
        known = self._find_known(context, parent, batch)
        examples = self._evaluate(context, parent, [*batch, *known]) if known else before
        answers = self._format_answers(context, [*batch, *known])
        result = replace(parent.evaluation, feedback=f"{failure}{examples.feedback}{answers}")
        view = parent.with_evaluation(parent.candidate, result, parent.score())
        advice = {**context.advice, BATCH_KEY: list(batch)}
        children = self.proposer.propose(context._replace(parents=[*context.parents[:-1], view], advice=advice))
        return [self._compare(context, parent, child, batch, before) for child in children]

    def _find_batch(
        self, context: function.ProposalContext, parent: function.Function
    ) -> tuple[Sequence[int], evaluation.Evaluation | None]:
        """Returns a minibatch with a failure of the parent, and the parent's result on it."""
        if self.data.is_shared and parent.evaluation is not None:
            batch = self._draw_batch(parent.evaluation.scores, context.rng)
            return (batch, self._evaluate(context, parent, batch)) if batch else ((), None)
        for batch in context.rng.sample(self.batches, min(MAX_BATCHES, len(self.batches))):
            result = self._evaluate(context, parent, batch)
            perfect = find_perfect_score(result.scores, self.target)
            if result.score is None or perfect is None or min(result.scores) < perfect:
                return batch, result
        return (), None

    def _find_known(
        self, context: function.ProposalContext, parent: function.Function, batch: Sequence[int]
    ) -> Sequence[int]:
        """Returns further training instances whose results are known, so that showing them costs no call.

        With a separate validation set those are the instances on which the parent was compared with its own parent.
        """
        if not self.data.is_shared:
            meta: Mapping[str, Any] = parent.candidate.meta if parent.candidate else {}
            return [index for index in meta.get("batch", ()) if index not in batch]
        scores = parent.evaluation.scores if parent.evaluation else ()
        perfect = find_perfect_score(scores, self.target)
        failures = [
            index for index, score in enumerate(scores) if index not in batch and (perfect is None or score < perfect)
        ]
        return sorted(context.rng.sample(failures, min(self.size, len(failures))))

    def _format_answers(self, context: function.ProposalContext, visible: Sequence[int]) -> str:
        """Returns further training instances as text. They cost no call, and teach the form of right answers."""
        train = self.data.train
        others = [index for index in range(len(train)) if index not in visible]
        if not others or not self.data.has_answers:
            return ""
        chosen = sorted(context.rng.sample(others, min(_MAX_ANSWERS, len(others))))
        texts = "\n\n".join(format_instance(train[index])[:_MAX_ANSWER_CHARS] for index in chosen)
        return f"\n\nMore instances, not evaluated\n{texts}"

    def _draw_batch(self, scores: Sequence[float], rng: Random) -> Sequence[int]:
        """Draws training instances whose scores are known: failures, and one success if there is one."""
        perfect = find_perfect_score(scores, self.target)
        failures = [index for index, score in enumerate(scores) if perfect is None or score < perfect]
        if not failures:
            return ()
        successes = [index for index in range(len(scores)) if index not in set(failures)]
        num_failures = min(len(failures), max(1, self.size - bool(successes)))
        chosen = rng.sample(failures, num_failures)
        chosen += rng.sample(successes, min(len(successes), self.size - num_failures))
        return sorted(chosen)

    def _evaluate(
        self, context: function.ProposalContext, fn: function.Function, indices: Sequence[int], part: str = TRAIN
    ) -> evaluation.Evaluation:
        trial = Minibatch.create(str(fn.skeleton()), indices, part)
        return context.evaluate([function.derive_child(fn, trial, engine="minibatch")])[0]

    def _compare(
        self,
        context: function.ProposalContext,
        parent: function.Function,
        child: function.Function,
        batch: Sequence[int],
        before: evaluation.Evaluation,
    ) -> function.Function:
        """Evaluates a child on the minibatch. A tie is decided on a part of the validation set.

        After a second tie a child that is nowhere better is rejected, unless the validation set is small.
        """
        after = self._evaluate(context, child, batch)
        is_better_somewhere = _is_better_somewhere(after.scores, before.scores)
        meta: dict[str, Any] = {"batch": list(batch), "before": before.score, "after": after.score}
        scores, num_instances = (before.score, after.score), len(batch)
        if after.score is not None and after.score == before.score and parent.evaluation is not None:
            indices = self._draw_tie_breakers(context, batch)
            second = self._evaluate(context, child, indices, VALIDATION) if indices else after
            parent_scores = [parent.evaluation.scores[index] for index in indices] or [before.score]
            scores, num_instances = (statistics.fmean(parent_scores), second.score), len(indices) or len(batch)
            is_better_somewhere |= _is_better_somewhere(second.scores, parent_scores)
            is_better_somewhere |= len(self.data.validation) <= _SMALL_VALIDATION
            after = second
            meta |= {"tie": [scores[0], scores[1], num_instances]}
        if after.failure is not None:
            meta[REJECTED_KEY] = after.failure[:300]
        elif scores[0] is not None and scores[1] is not None and scores[1] < scores[0]:
            kind = "validation" if "tie" in meta else "training"
            meta[REJECTED_KEY] = (
                f"mean {scores[1]:.6g} against {scores[0]:.6g} of its parent on {num_instances} {kind} instances"
            )
        elif "tie" in meta and not is_better_somewhere:
            meta[REJECTED_KEY] = f"better than its parent on none of {len(batch) + num_instances} instances"
        candidate = child.candidate or Candidate("", str(child.skeleton()))
        return child.with_evaluation(replace(candidate, meta={**candidate.meta, **meta}))

    def _draw_tie_breakers(self, context: function.ProposalContext, batch: Sequence[int]) -> Sequence[int]:
        known = set(batch) if self.data.is_shared else set[int]()
        others = [index for index in range(len(self.data.validation)) if index not in known]
        count = max(self.size, len(self.data.validation) // _TIE_SHARE)
        return sorted(context.rng.sample(others, min(count, len(others))))


def _is_better_somewhere(scores: Sequence[float], others: Sequence[float]) -> bool:
    return any(score > other for score, other in zip(scores, others, strict=False))


@dataclass(frozen=True, slots=True)
class MinibatchFilter:
    """Prefilter that rejects children that were worse on the minibatch, and then asks another prefilter.

    Attributes:
        next_filter: The other prefilter; None accepts everything.
    """

    next_filter: gate.Gate | None = None

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        meta: Mapping[str, Any] = proposal.candidate.meta
        if reason := meta.get(REJECTED_KEY):
            return gate.Decision("reject", str(reason), "minibatch")
        if self.next_filter is not None:
            return self.next_filter(proposal)
        return gate.Decision("accept", "not worse on the minibatch", "minibatch")


class CallBudget:
    """Budget of evaluator calls. Iterations reserve the most that they may need, so it is never exceeded.

    It is a learner: an applied iteration returns its reservation.

    Args:
        memory: Counts the calls.
        limit: Highest number of calls; None: any.
        max_calls: Highest number of calls of one iteration.
    """

    def __init__(self, memory: CallMemory, limit: int | None, max_calls: int) -> None:
        self._memory, self._limit, self._max_calls = memory, limit, max_calls
        self._reserved: dict[int, int] = {}  # by iteration
        self._lock = Lock()

    def reserve(self, iteration: int) -> bool:
        """Reserves the calls of an iteration; returns whether the budget allows it."""
        needed = max(0, self._max_calls - self._memory.count_resumed(iteration))
        with self._lock:
            if self._limit is not None and self._count() + needed > self._limit:
                return False
            self._reserved[iteration] = needed
            return True

    def _count(self) -> int:
        return self._memory.calls + sum(self._reserved.values())

    def find_reason(self, progress: control.RunProgress) -> str | None:
        """Stop rule: returns a reason if another iteration might exceed the budget."""
        with self._lock:
            is_used = self._limit is not None and self._count() + self._max_calls > self._limit
        if not is_used:
            return None
        return f"budget of {self._limit} evaluator calls used, another iteration may need {self._max_calls}"

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return EMPTY

    def learn(self, result: function.IterationResult) -> None:
        """Returns the reservation of an applied iteration."""
        with self._lock:
            self._reserved.pop(result.iteration, None)


@dataclass(frozen=True, slots=True)
class BudgetedProposer:
    """A proposer that makes children only while the budget of evaluator calls allows it."""

    proposer: function.Proposer
    budget: CallBudget

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children; none if their evaluator calls might exceed the budget."""
        return self.proposer.propose(context) if self.budget.reserve(context.iteration) else []
