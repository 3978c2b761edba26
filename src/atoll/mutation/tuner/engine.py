"""Mutator that tunes the constants of a program, and rounds them if that does not change the score."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll import errors, function
from atoll.mutation.text_blocks import NotApplicable, with_text
from atoll.mutation.tuner.optimizer import Optimizer
from atoll.mutation.tuner.space import BestPoint, Point, Space, count_digits, round_to_digits
from atoll.mutation.tuner.tunables import DeclaredTunables, find_literals, find_tunables

NAME = "tuner"
_MAX_ROUNDING_TRIALS = 6  # at most this many evaluations to make numbers rounder


@dataclass(frozen=True, slots=True)
class Tuner:
    """Makes one child: a parent with the best constants of a search inside one iteration.

    The context evaluates the trials, so each is stored and counts in the budget. A resumed iteration makes the same
    trials and finds them in the journal.

    Attributes:
        budget: Maximal evaluations of one iteration; fewer if the context allows fewer.
        patience: Evaluations without improvement after which the iteration ends; more with many constants.
        with_literals: Whether to tune number literals if the program declares no tunables.
        max_literals: Maximal number of literals at once. Each iteration draws others if there are more.
    """

    budget: int = 40
    patience: int = 12
    with_literals: bool = False
    max_literals: int = 12

    def __post_init__(self) -> None:
        if self.budget < 1 or self.patience < 1 or self.max_literals < 1:
            raise errors.SetupError(
                f"budget is {self.budget}, patience {self.patience} and max_literals {self.max_literals}. "
                "Set all to at least 1."
            )

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns a child with better constants; an empty list if the search found none.

        Raises:
            NotApplicable: The parent has nothing to tune.
        """
        parent = _choose_parent(context)
        skeleton, trials = self.tune(context, parent, parent.score() if parent.evaluation else None)
        if skeleton is None:
            return []
        return [function.derive_child(parent, skeleton, parents=[parent], engine=NAME, trials=trials)]

    def tune(
        self, context: function.ProposalContext, fn: function.Function, score: float | None
    ) -> tuple[function.AnySkeleton | None, int]:
        """Searches for better constants; returns the new skeleton, or None, and the number of trials.

        Raises:
            NotApplicable: The function has nothing to tune.
        """
        declaration = self._find_tunables(str(fn.skeleton()), context.rng)
        optimizer = Optimizer(declaration.tunables, context.rng.getrandbits(32))
        optimizer.tell(optimizer.space.start, score)
        limit = self.budget if context.max_evaluations is None else min(self.budget, context.max_evaluations)
        trials = 0

        def evaluate_point(point: Point) -> float | None:
            trial = function.derive_child(fn, with_text(fn, declaration.write_point(point)), parents=[fn], engine=NAME)
            return context.evaluate([trial])[0].score

        while trials < limit and optimizer.since_best <= self.patience + len(optimizer.space):
            point = optimizer.ask()
            if point is None:
                break
            optimizer.tell(point, evaluate_point(point))
            trials += 1
        if optimizer.best.point == optimizer.space.start:
            return None, trials
        # Rounding gets only the remaining evaluations: a better score is worth more than a round number.
        rounder = PointRounder(optimizer.space, optimizer.best)
        rounding_limit = min(limit, trials + _MAX_ROUNDING_TRIALS)
        while trials < rounding_limit and (point := rounder.ask()) is not None:
            rounder.tell(point, evaluate_point(point))
            trials += 1
        return with_text(fn, declaration.write_point(rounder.point)), trials

    def _find_tunables(self, text: str, rng: Random | None = None) -> DeclaredTunables:
        try:
            declaration = find_tunables(text)
        except errors.SetupError as error:  # the initial program was checked, so a mutator wrote this declaration
            raise NotApplicable(str(error)) from error
        if not declaration.tunables and self.with_literals:
            declaration = find_literals(text, max_count=self.max_literals, rng=rng)
        if not declaration.tunables:
            raise NotApplicable("The program declares nothing to tune. Write tunable(VALUE, LOW, HIGH).")
        return declaration


def _choose_parent(context: function.ProposalContext) -> function.Function:
    """Returns the best parent that was not made by the tuner, else the best."""
    for parent in reversed(context.parents):
        if parent.candidate is None or parent.candidate.meta.get("engine") != NAME:
            return parent
    return context.parents[-1]


class PointRounder:
    """Tries points like the best with rounder numbers, and keeps those that do not score less.

    It first rounds all numbers to one, two or three digits, then each number to its start value or to few digits.

    Attributes:
        point: The roundest point that scores as much as the best.
        score: Its score.
    """

    def __init__(self, space: Space, best: BestPoint) -> None:
        self._space, self.point, self.score = space, best.point, best.score
        indices = [index for index in range(len(space)) if self._count_digits(index) > 1]
        self._plans: list[tuple[tuple[int, ...], int]] = [(tuple(indices), digits) for digits in (1, 2, 3)]
        singles = sorted(indices, key=self._count_digits, reverse=True)
        self._plans += [((index,), digits) for index in singles for digits in (0, 1, 2)]
        self._tried = {best.point}

    def ask(self) -> Point | None:
        """Returns the next point to evaluate; None if nothing is left to round."""
        while self._plans:
            point = self._round_point(*self._plans.pop(0))
            if point not in self._tried and self._cost(point) < self._cost(self.point):
                self._tried.add(point)
                return point
        return None

    def tell(self, point: Point, score: float | None) -> None:
        """Keeps the point if it does not score less."""
        if score is not None and math.isfinite(score) and (self.score is None or score >= self.score):
            self.point, self.score = point, score

    def _round_point(self, indices: Sequence[int], digits: int) -> Point:
        values = list(self.point)
        for index in indices:
            tunable, value = self._space.tunables[index], values[index]
            assert isinstance(value, int | float)
            values[index] = (
                min(max(round_to_digits(value, digits), tunable.low), tunable.high) if digits else tunable.start
            )
        return tuple(values)

    def _cost(self, point: Point) -> int:
        """Returns the number of digits of all values that differ from their start."""
        return sum(self._count_digits(index, point) for index in range(len(point)))

    def _count_digits(self, index: int, point: Point | None = None) -> int:
        tunable, value = self._space.tunables[index], (point or self.point)[index]
        if tunable.choices or tunable.is_integer or value == tunable.start or not isinstance(value, int | float):
            return 0
        return count_digits(value)
