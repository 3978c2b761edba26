"""The ring of islands: protocols and events, no implementation."""

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
    """Makes islands evolve."""

    def start(self) -> None:
        """Begins and returns at once."""

    def stop(self) -> None:
        """Lets the steps at work finish, saves and returns when all has ended."""


class OnBestFnImproved(NamedTuple):
    type: Literal["on_best_fn_improved"]
    payload: function.Function


type IslandEvent = OnBestFnImproved


class Island(profiler.Pluggable[IslandEvent], Protocol):
    """A population that changes only when it is asked to, so that islands may outnumber the machine's cores."""

    @property
    def index(self) -> int:
        """Its place in the ring."""

    @property
    def epoch(self) -> int:
        """How often its place was reset; a child of an older epoch is stored and does not enter."""

    @property
    def population(self) -> "Population": ...

    def best_fn(self) -> function.Function: ...

    def request_mutation(self) -> function.Function:
        """Takes one whole step here and now; returns the best child, or the failed one."""


class Selection(NamedTuple):
    """What a step starts from: parents, worst first, and others by role."""

    parents: Sequence[function.Function]
    inspirations: Mapping[str, Sequence[function.Function]] = candidate.EMPTY


class Population(Protocol):
    """What an island keeps: niches, or the head of a version history."""

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        """Keeps, replaces or ignores; O(log n) amortised; draws no random number.

        Returns the decision as it was carried out. A decision that already names a version was carried out before.
        """

    def select(self) -> Selection:
        """Returns parents and others; draws from the archipelago's random generator only."""

    def best_fn(self) -> function.Function:
        """Returns the best by score (niches) or the head (versions).

        Raises:
            NotFound: It is empty.
        """

    def get(self, id: str) -> function.Function:
        """Returns a member by its candidate's id; one that has left may still be found while somebody holds it.

        Raises:
            NotFound: It is no member.
        """

    def update_evaluation(self, fn: function.Function) -> None:
        """Takes in a member that was judged again; may cost O(n); draws no random number.

        Raises:
            NotFound: It is not (or no longer) a member.
        """


class PendingIteration(NamedTuple):
    """One step that was issued.

    Attributes:
        epoch: The island's epoch when it was issued.
        seen: Steps applied when it was issued.
        allowance: How many evaluations it may use, or None.
    """

    island: int
    epoch: int
    iteration: int
    applied_count: int
    selection: Selection
    advice: Mapping[str, candidate.JSON]
    max_evaluations: int | None


class Migration(NamedTuple):
    """A function swims to another island, where it is ranked anew and not judged again."""

    fn: function.Function
    target: int


class Reset(NamedTuple):
    """An island is emptied and founded anew."""

    island: int
    founders: Sequence[function.Function]


class Schedule(Protocol):
    """Says which island a step belongs to and what is due between islands."""

    def choose_island(self, iteration: int) -> int:
        """Returns the index of the island that a step belongs to; a pure function of the step."""

    def plan_actions(self, applied_count: int, islands: Sequence[Island], seed: str) -> Sequence[Migration | Reset]:
        """Returns what happens now that `applied` steps were applied; called once after each. Dice come from `seed`."""

    @property
    def uses_clock(self) -> bool:
        """Whether `due` depends on seconds, which an ordered run refuses."""
