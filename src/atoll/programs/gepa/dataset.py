"""A data set in its parts: one to learn from, one that chooses, and a sealed one that is scored once at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors

type Part = Sequence[Any] | float | None


@dataclass(frozen=True, slots=True)
class DatasetSplit:
    """What a search sees; the test set is in no part of it.

    Attributes:
        train: What proposals are made from and tried on first.
        validation: What a candidate's score is the mean over, one score per instance.
    """

    train: Sequence[Any]
    validation: Sequence[Any]

    def make_batches(self, size: int, seed: int) -> Sequence[tuple[int, ...]]:
        """Cuts the train part into minibatches, by their places in it.

        They are the same ones all along, so that a parent is judged on each at most once, whatever its children.
        """
        indices = list(range(len(self.train)))
        Random(f"{seed}/batches").shuffle(indices)
        batches = [tuple(sorted(indices[start : start + size])) for start in range(0, len(indices), size)]
        return [batch for batch in batches if len(batch) == min(size, len(indices))]


class SealedTestSet:
    """A test set that opens once: no search holds one, only whoever ends the run."""

    def __init__(self, instances: Sequence[Any]) -> None:
        self.__instances, self.__is_open = list(instances), False

    def __len__(self) -> int:
        return len(self.__instances)

    def open(self) -> Sequence[Any]:
        """Returns the instances.

        Raises:
            Conflict: They were taken out before: a second score on them would be a choice by them.
        """
        if self.__is_open:
            raise errors.Conflict("The test set was scored before: a second time it would be part of the search.")
        self.__is_open = True
        return self.__instances


def split_dataset(
    data: Sequence[Any], validation: Part = None, test: Part = None, *, seed: int = 0
) -> tuple[DatasetSplit, SealedTestSet | None]:
    """Makes the parts of a data set.

    Args:
        data: The instances.
        validation: Instances of their own, or a share of `data`; None: what is learned from chooses too.
        test: Instances of their own, or a share of `data`; None: there is no test set.
        seed: Says which instances a share gets.

    Raises:
        SetupError: A share is none, or a part is empty.
    """
    remaining = list(data)
    if any(isinstance(part, float) for part in (validation, test)):
        Random(f"{seed}/split").shuffle(remaining)
    total = len(remaining)
    test_instances, remaining = _take_part("test", test, remaining, total)
    validation_instances, remaining = _take_part("validation", validation, remaining, total)
    if not remaining:
        raise errors.SetupError(
            f"Of {total} instances of data none are left to learn from: give more, or less to test."
        )
    return DatasetSplit(
        remaining, remaining if validation_instances is None else validation_instances
    ), None if test_instances is None else SealedTestSet(test_instances)


def _take_part(name: str, part: Part, remaining: list[Any], total: int) -> tuple[Sequence[Any] | None, list[Any]]:
    """Returns a part and what is left."""
    if part is None:
        return None, remaining
    if not isinstance(part, int | float):
        if not len(part):
            raise errors.SetupError(f"{name} is empty: give instances, a share like 0.3, or leave it out.")
        return list(part), remaining
    if not 0 < part < 1:
        raise errors.SetupError(f"{name} is {part}: give instances, or a share between 0 and 1.")
    count = max(1, round(part * total))
    return remaining[:count], remaining[count:]
