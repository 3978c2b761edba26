"""Islands and their evolver: interfaces and events, no implementation."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from atoll import candidate, function, gate, profiler


class OnIslandsRemoved(NamedTuple):
    type: Literal["on_islands_removed"]
    payload: list["Island"]


class OnIslandsRevived(NamedTuple):
    type: Literal["on_islands_revived"]
    payload: list["Island"]


class OnBestIslandImproved(NamedTuple):
    type: Literal["on_best_island_improved"]
    payload: "Island"


type EvolverEvent = OnIslandsRemoved | OnIslandsRevived | OnBestIslandImproved


class Evolver(profiler.Pluggable[EvolverEvent], Protocol):
    """Evolves islands."""

    def start(self) -> None:
        """Starts and returns at once."""

    def stop(self) -> None:
        """Finishes the running iterations, saves and returns."""


class OnBestFnImproved(NamedTuple):
    type: Literal["on_best_fn_improved"]
    payload: function.Function


type IslandEvent = OnBestFnImproved


class Island(profiler.Pluggable[IslandEvent], Protocol):
    """A population with an index. It has no thread of its own, so islands may outnumber the CPU cores."""

    @property
    def index(self) -> int: ...

    @property
    def epoch(self) -> int:
        """Number of resets. Children of an older epoch are stored but not added."""

    @property
    def population(self) -> "Population": ...

    def best_fn(self) -> function.Function: ...

    def request_mutation(self) -> function.Function:
        """Runs one iteration in this thread; returns the best child, or the failed one."""


class Selection(NamedTuple):
    """Parents, worst first, and inspirations by role."""

    parents: Sequence[function.Function]
    inspirations: Mapping[str, Sequence[function.Function]] = candidate.EMPTY


class Population(Protocol):
    """Candidates of one island: niches, or the current version of a key."""

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        """Adds, replaces or ignores, in amortized O(log n), without random numbers.

        Returns the decision as applied. A decision that already names a version was applied before.
        """

    def select(self) -> Selection:
        """Returns parents and inspirations; uses only the archipelago's random generator."""

    def best_fn(self) -> function.Function:
        """Returns the best by score (niches) or the current version.

        Raises:
            NotFound: The population is empty.
        """

    def get(self, id: str) -> function.Function:
        """Returns a member by its candidate's id. A removed one is returned while references to it exist.

        Raises:
            NotFound: It is not a member.
        """

    def update_evaluation(self, fn: function.Function) -> None:
        """Replaces a member that was evaluated again, in O(n), without random numbers.

        Raises:
            NotFound: It is not (or no longer) a member.
        """


class PendingIteration(NamedTuple):
    """An issued iteration.

    Attributes:
        epoch: The island's epoch when it was issued.
        applied_count: Iterations applied when it was issued.
        max_evaluations: Evaluations that it may use, or None.
        max_calls: LLM calls that it may make, or None.
    """

    island: int
    epoch: int
    iteration: int
    applied_count: int
    selection: Selection
    advice: Mapping[str, candidate.JSON]
    max_evaluations: int | None
    max_calls: int | None = None


class Migration(NamedTuple):
    """Copies a function to another island. The fitness is computed there; the evaluation is reused."""

    fn: function.Function
    target: int


class Reset(NamedTuple):
    """Empties an island and adds its founders."""

    island: int
    founders: Sequence[function.Function]


class Schedule(Protocol):
    """Assigns iterations to islands and plans migrations and resets."""

    def choose_island(self, iteration: int) -> int:
        """Returns the index of the island; a pure function of the iteration."""

    def plan_actions(self, applied_count: int, islands: Sequence[Island], seed: str) -> Sequence[Migration | Reset]:
        """Returns the actions after `applied_count` iterations. Called once after each; random choices use `seed`."""

    @property
    def uses_clock(self) -> bool:
        """True if `plan_actions` depends on the time, which an ordered run refuses."""
