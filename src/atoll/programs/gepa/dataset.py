"""Splits of a data set: training, validation, and a sealed test set that is scored once at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors

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
        SetupError: A share is not between 0 and 1, or a part is empty.
    """
    remaining = list(data)
    if any(isinstance(part, float) for part in (validation, test)):
        Random(f"{seed}/split").shuffle(remaining)
    total = len(remaining)
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
