"""Options of `atoll.evolve`, and the events for `on_event=`. `import atoll` loads this file, so imports are few."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, NamedTuple


class Started(NamedTuple):
    """The run begins; `is_resumed` if it continues a stored one."""

    run: str
    kind: str
    is_resumed: bool


class Progress(NamedTuple):
    """An iteration is done.

    Attributes:
        iteration: Iterations done so far.
        score: Best score so far.
        initial_score: Score of the initial object.
        evaluator_calls: Evaluator calls so far.
        llm_calls: LLM calls so far.
        tokens: Tokens of the LLM calls so far.
        usd: Cost in dollars so far.
        seconds: Time since this call of `atoll.evolve`.
        outcome: Result of this iteration in words, such as "accept" or the reason of a failure.
    """

    iteration: int
    score: float
    initial_score: float
    evaluator_calls: int
    llm_calls: int
    tokens: int
    usd: float
    seconds: float
    outcome: str = ""

    def __str__(self) -> str:
        llm_usage = ""
        if self.llm_calls:
            dollars = f", ${self.usd:.4f}" if self.usd else ""
            llm_usage = f", {self.llm_calls:,} LLM calls, {self.tokens:,} tokens{dollars}"
        usage = f"{self.evaluator_calls:,} evaluator calls{llm_usage}, {self.seconds:.0f} s"
        return f"score {self.score:.6g} (initial {self.initial_score:.6g}), {usage}"


class Improved(NamedTuple):
    """A candidate is better than all before it."""

    id: str
    score: float
    previous_score: float | None
    content: str
    idea: str


class Ended(NamedTuple):
    """The run ended: `done`, `interrupted`, `stopped` or `failed`."""

    status: str
    reason: str
    score: float


type Event = Started | Progress | Improved | Ended
type OnEvent = Callable[[Event], object]


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
    examples: bool = True
    resume: bool | str = False
    on_event: OnEvent | None = None
    verbose: bool = True
    method: Literal["evolve", "best_of_n", "sequential"] = "evolve"  # or a baseline
