"""A data set in its parts: one to learn from, one that chooses, and a sealed one that is scored once at the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from atoll import errors

type Part = Sequence[Any] | float | None


@dataclass(frozen=True, slots=True)
class Data:
    """What a search sees; the test set is in no part of it.

    Attributes:
        train: What proposals are made from and tried on first.
        validation: What a candidate's score is the mean over, one score per instance.
    """

    train: Sequence[Any]
    validation: Sequence[Any]

    def batches(self, size: int, seed: int) -> Sequence[tuple[int, ...]]:
        """Cuts the train part into minibatches, by their places in it.

        They are the same ones all along, so that a parent is judged on each at most once, whatever its children.
        """
        places = list(range(len(self.train)))
        Random(f"{seed}/batches").shuffle(places)
        whole = [tuple(sorted(places[at : at + size])) for at in range(0, len(places), size)]
        return [batch for batch in whole if len(batch) == min(size, len(places))]


class Sealed:
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


def split(
    data: Sequence[Any], validation: Part = None, test: Part = None, *, seed: int = 0
) -> tuple[Data, Sealed | None]:
    """Makes the parts of a data set.

    Args:
        data: The instances.
        validation: Instances of their own, or a share of `data`; None: what is learned from chooses too.
        test: Instances of their own, or a share of `data`; None: there is no test set.
        seed: Says which instances a share gets.

    Raises:
        SetupError: A share is none, or a part is empty.
    """
    rest = list(data)
    if any(isinstance(part, float) for part in (validation, test)):
        Random(f"{seed}/split").shuffle(rest)
    total = len(rest)
    sealed, rest = _taken("test", test, rest, total)
    chosen, rest = _taken("validation", validation, rest, total)
    if not rest:
        raise errors.SetupError(
            f"Of {total} instances of data none are left to learn from: give more, or less to test."
        )
    return Data(rest, rest if chosen is None else chosen), None if sealed is None else Sealed(sealed)


def _taken(name: str, part: Part, rest: list[Any], total: int) -> tuple[Sequence[Any] | None, list[Any]]:
    """Returns a part and what is left."""
    if part is None:
        return None, rest
    if not isinstance(part, int | float):
        if not len(part):
            raise errors.SetupError(f"{name} is empty: give instances, a share like 0.3, or leave it out.")
        return list(part), rest
    if not 0 < part < 1:
        raise errors.SetupError(f"{name} is {part}: give instances, or a share between 0 and 1.")
    count = max(1, round(part * total))
    return rest[:count], rest[count:]
