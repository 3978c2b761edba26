"""The engine that tunes the constants of a program and leaves all else."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll import errors, function
from atoll.mutation.skeletons import skeleton_of
from atoll.mutation.tuner.declared import Declared, declared, literals
from atoll.mutation.tuner.optimiser import Optimiser
from atoll.mutation.tuner.rounding import Rounding
from atoll.mutation.tuner.space import Point
from atoll.mutation.unfit import Unfit

NAME = "tuner"
_ROUNDING = 6  # evaluations of a step at most that only make numbers rounder


@dataclass(frozen=True, slots=True)
class Tuner:
    """Makes one child: a parent with the best constants that a search inside this one step has found.

    The step judges its drafts through the task, so each is stored when it is judged, counts in the budget and is never
    paid twice; killed and resumed, the same step asks for the same drafts and finds them in the journal.

    Attributes:
        budget: Evaluations of one step at most; a step that is promised fewer takes fewer.
        patience: Ends the step after so many evaluations without a better one; more where there are many constants.
        with_literals: Also tunes plain numbers, where a program declares nothing.
        most_literals: How many of them at once; each step draws others where there are more.
    """

    budget: int = 40
    patience: int = 12
    with_literals: bool = False
    most_literals: int = 12

    def __post_init__(self) -> None:
        if self.budget < 1 or self.patience < 1 or self.most_literals < 1:
            raise errors.SetupError(
                f"budget is {self.budget}, patience {self.patience}, most_literals {self.most_literals}; "
                "all must be at least 1."
            )

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns a child with better constants; none if it found none.

        Raises:
            Unfit: The parent has nothing to tune.
        """
        parent = _parent(task)
        tuned, trials = self.tuned(task, parent, parent.score() if parent.evaluation else None)
        if tuned is None:
            return []
        return [function.draft(parent, tuned, parents=[parent], engine=NAME, trials=trials)]

    def tuned(
        self, task: function.Task, fn: function.Function, score: float | None
    ) -> tuple[function.AnySkeleton | None, int]:
        """Searches for better constants of a function; returns it with them, None if there are none, and the trials.

        Raises:
            Unfit: It has nothing to tune.
        """
        found = self._declared(str(fn.skeleton()), task.rng)
        search = Optimiser(found.tunables, task.rng.getrandbits(32))
        search.tell(search.space.start, score)
        limit = self.budget if task.allowance is None else min(self.budget, task.allowance)
        trials = 0

        def judged(point: Point) -> float | None:
            draft = function.draft(fn, skeleton_of(fn, found.written(point)), parents=[fn], engine=NAME)
            return task.judge([draft])[0].score

        while trials < limit and search.since_best <= self.patience + len(search.space):
            point = search.ask()
            if point is None:
                break
            search.tell(point, judged(point))
            trials += 1
        if search.best.point == search.space.start:
            return None, trials
        # Only what is left is spent on looks: a better score is worth more than a round one.
        rounding, last = Rounding(search.space, search.best), min(limit, trials + _ROUNDING)
        while trials < last and (point := rounding.ask()) is not None:
            rounding.tell(point, judged(point))
            trials += 1
        return skeleton_of(fn, found.written(rounding.point)), trials

    def _declared(self, text: str, rng: Random | None = None) -> Declared:
        try:
            found = declared(text)
        except errors.SetupError as error:  # a start like that never gets here: whoever wrote this one meant well
            raise Unfit(str(error)) from error
        if not found.tunables and self.with_literals:
            found = literals(text, most=self.most_literals, rng=rng)
        if not found.tunables:
            raise Unfit("It declares nothing to tune: write tunable(VALUE, LOW, HIGH).")
        return found


def _parent(task: function.Task) -> function.Function:
    """Returns the best parent that is no result of tuning itself, else the best."""
    for parent in reversed(task.parents):
        if parent.candidate is None or parent.candidate.meta.get("engine") != NAME:
            return parent
    return task.parents[-1]
