"""Where a replay stands, on disk."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import errors


@dataclass(frozen=True, slots=True)
class ReplayCheckpoint:
    """All that a replay needs to go on.

    Attributes:
        request: What was replayed: another replay must not go on with it.
        place: Where the source is read on.
        report: The counts so far.
        states: Of the reflectors, in their order; None of one that keeps none.
    """

    request: Mapping[str, Any]
    place: Any
    report: Mapping[str, Any]
    states: Sequence[Any]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Takes the place of an older one, whole or not at all."""
        temporary_path = f"{os.fspath(path)}.{os.getpid()}"
        data = {name: getattr(self, name) for name in self.__slots__}
        with open(temporary_path, "w", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary_path, path)


def read_checkpoint(path: str | os.PathLike[str], request: Mapping[str, Any]) -> ReplayCheckpoint | None:
    """Returns the checkpoint of a replay, None if there is none yet.

    Raises:
        SetupError: It cannot be read, or belongs to another replay.
    """
    try:
        with open(path, encoding="utf-8") as file:
            checkpoint = ReplayCheckpoint(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.SetupError(f"{os.fspath(path)} is no checkpoint of a replay: delete it ({error}).") from error
    if checkpoint.request != request:
        raise errors.SetupError(
            f"{os.fspath(path)} belongs to another replay (its window, attribution or reflectors differ): "
            "delete it, or name another."
        )
    return checkpoint
