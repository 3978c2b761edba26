"""An engine whose children are tuned before they are kept: a good idea with bad constants looks like a bad one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atoll import candidate, function
from atoll.mutation.tuner import Tuner
from atoll.mutation.unfit import NotApplicable

NAME = "refined"


@dataclass(frozen=True, slots=True)
class TunedMutator:
    """Lets another engine propose, judges what it made and tunes the numbers of what ran.

    Attributes:
        engine: Who proposes.
        tuner: How the child is tuned; with few evaluations, since most ideas are bad ones.
    """

    mutator: function.Proposer
    tuner: Tuner = field(default_factory=lambda: Tuner(budget=24, patience=8, with_literals=True, max_literals=5))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children of the engine, each with the best constants that were found."""
        return [self._tune_child(context, child) for child in self.mutator.propose(context)]

    def _tune_child(self, context: function.ProposalContext, child: function.Function) -> function.Function:
        [evaluation] = context.evaluate([child])
        if evaluation.score is None:
            return _with_trials(child, 1)
        try:
            skeleton, trials = self.tuner.tune(context, child, evaluation.score)
        except NotApplicable:
            return _with_trials(child, 1)
        if skeleton is None:
            return _with_trials(child, 1 + trials)
        tuned_child = child.clone(skeleton).with_evaluation(replace(_get_candidate(child), content=str(skeleton)))
        return _with_trials(tuned_child, 1 + trials)


def _with_trials(fn: function.Function, trials: int) -> function.Function:
    base = _get_candidate(fn)
    return fn.with_evaluation(replace(base, meta={**base.meta, "engine": NAME, "trials": trials}))


def _get_candidate(fn: function.Function) -> candidate.Candidate:
    return fn.candidate or candidate.Candidate("", str(fn.skeleton()))
