"""An engine whose children are tuned before they are kept: a good idea with bad constants looks like a bad one."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from atoll import candidate, function
from atoll.mutation.tuner import Tuner
from atoll.mutation.unfit import Unfit

NAME = "refined"


@dataclass(frozen=True, slots=True)
class Refined:
    """Lets another engine propose, judges what it made and tunes the numbers of what ran.

    Attributes:
        engine: Who proposes.
        tuner: How the child is tuned; with few evaluations, since most ideas are bad ones.
    """

    engine: function.Proposer
    tuner: Tuner = field(default_factory=lambda: Tuner(budget=24, patience=8, with_literals=True, most_literals=5))

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns the children of the engine, each with the best constants that were found."""
        return [self._refined(task, child) for child in self.engine.propose(task)]

    def _refined(self, task: function.Task, child: function.Function) -> function.Function:
        [found] = task.judge([child])
        if found.score is None:
            return _noted(child, 1)
        try:
            tuned, trials = self.tuner.tuned(task, child, found.score)
        except Unfit:
            return _noted(child, 1)
        if tuned is None:
            return _noted(child, 1 + trials)
        made = child.clone(tuned).settle(replace(_note(child), content=str(tuned)))
        return _noted(made, 1 + trials)


def _noted(fn: function.Function, trials: int) -> function.Function:
    note = _note(fn)
    return fn.settle(replace(note, meta={**note.meta, "engine": NAME, "trials": trials}))


def _note(fn: function.Function) -> candidate.Candidate:
    return fn.candidate or candidate.Candidate("", str(fn.skeleton()))
