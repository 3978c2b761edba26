"""Options of `atoll.evolve`."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple

from atoll.evolve.events import OnEvent


class EvolveOptions(NamedTuple):
    """Options of `atoll.evolve`, described there."""

    budget: object = None
    llm: str | Callable[[str], Any] | None = None
    objective: str = ""
    data: Sequence[Any] | None = None
    validation: Sequence[Any] | float | None = None
    test: Sequence[Any] | float | None = None
    target: float | None = None
    seed: int = 0
    workers: int = 2
    store: str | PathLike[str] | None = None
    baselines: bool = False
    kind: str | None = None
    sandbox: bool | None = None
    unsafe: bool = False
    seconds: float = 30.0
    minibatch: int = 3
    merge: bool = True
    resume: bool | str = False
    on_event: OnEvent | None = None
    verbose: bool = True
    method: Literal["evolve", "best_of_n", "sequential"] = "evolve"  # or a baseline
