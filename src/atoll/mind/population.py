"""What an island keeps: its whole population, drawn from by a Boltzmann tournament."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from weakref import WeakValueDictionary

from atoll import archipelago, cluster, errors, function, gate
from atoll.mind import plan_evaluator

type Functions = Sequence[function.Function]


def select_by_tournament(fitness_values: Sequence[float], k: int, rng: Random, temperature: float = 0.03) -> list[int]:
    """Draws k different places by the softmax of their ranks (a Boltzmann tournament), worst first.

    The highest k of rank / temperature + Gumbel noise are exactly draws from the softmax without putting back.
    """
    noisy_values = [
        fitness / temperature - math.log(-math.log(1.0 - rng.random() * (1 - 1e-12))) for fitness in fitness_values
    ]
    indices = sorted(range(len(fitness_values)), key=lambda index: -noisy_values[index])[:k]
    return sorted(indices, key=lambda index: fitness_values[index])


def _get_fitness(fn: function.Function) -> float:
    return max(function.get_fitness(fn), -1e9)


@dataclass(frozen=True, slots=True)
class ParentSampling:
    """How parents are drawn.

    Attributes:
        num_parents: At most so many.
        pr_no_parents: How often there are none, and a plan is begun anew; with 1/6 and 5 every number from 0 to 5
            is as likely.
        temperature: Of the softmax, in units of fitness; the paper gives none.
        max_members: How many members an island keeps; the worst leave.
        make_selector: Makes a selector from a random generator and the temperature; None: Boltzmann tournament.
    """

    num_parents: int = 5
    pr_no_parents: float = 1 / 6
    temperature: float = 0.03
    max_members: int = 400
    make_selector: Callable[[Random, float], cluster.Selector] | None = None

    def select(self, fitness_values: Sequence[float], k: int, rng: Random) -> list[int]:
        """Draws up to k members, worst first."""
        if self.make_selector is None:
            return select_by_tournament(fitness_values, k, rng, self.temperature)
        selector = self.make_selector(rng, self.temperature)
        for index, fitness in enumerate(fitness_values):
            selector.set(index, fitness, 1)
        indices = set(selector.select(k, len(fitness_values))) if fitness_values and k else set[int]()
        return sorted(indices, key=lambda index: (fitness_values[index], index))


@dataclass(eq=False)
class EliteArchive:
    """The best of all islands of one problem, whatever becomes of those islands; and whom a model has chosen of them.

    Attributes:
        most: How many it holds.
        best: The best first, on the scale that all islands share; no text twice.
        chosen: Ids of those that are good and unlike each other, as a model last said.
    """

    max_size: int
    best: list[function.Function] = field(default_factory=list)
    selected_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.by_id: WeakValueDictionary[str, function.Function] = WeakValueDictionary()

    def add(self, fn: function.Function) -> None:
        if fn.candidate is not None and (selected := fn.candidate.meta.get("chosen")):
            self.selected_ids = (
                tuple(str(candidate_id) for candidate_id in selected) if isinstance(selected, list | tuple) else ()
            )
        text = str(fn.skeleton())
        if any(str(elite.skeleton()) == text for elite in self.best):
            return
        self.best = sorted([*self.best, fn], key=plan_evaluator.get_score, reverse=True)[: self.max_size]
        self.by_id[get_id(fn)] = fn


@dataclass(eq=False)
class WorldlinePopulation:
    """One island's worldlines, no text twice; nobody is retired but by a reset, or where there is no room.

    Attributes:
        shown: Whether a step is shown the hall, to choose founders for a reset.
    """

    sampling: ParentSampling
    archive: EliteArchive
    rng: Random
    shows_elites: bool = False

    def __post_init__(self) -> None:
        self._members: dict[str, function.Function] = {}
        self._base: function.Function | None = None
        self._by_id: WeakValueDictionary[str, function.Function] = WeakValueDictionary()

    @property
    def members(self) -> list[function.Function]:
        return list(self._members.values())

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        if fn.score() is None:
            return decision
        if plan_evaluator.is_base(fn):
            self._base = self._by_id[get_id(fn)] = fn
            return decision
        self.archive.add(fn)
        if self._members.setdefault(str(fn.skeleton()), fn) is fn:
            # A migrant that came home stays out: under its id the one that stands here is found, and lives on.
            self._by_id[get_id(fn)] = fn
        if len(self._members) > self.sampling.max_members:
            worst = min(self._members.items(), key=lambda item: _get_fitness(item[1]))
            del self._members[worst[0]]
        return decision

    def select(self) -> archipelago.Selection:
        sampling, rng = self.sampling, self.rng
        num_parents = 0 if rng.random() < sampling.pr_no_parents else rng.randint(1, max(1, sampling.num_parents))
        members = self.members
        indices = sampling.select([_get_fitness(fn) for fn in members], num_parents, rng)
        parents = [members[index] for index in indices]
        inspirations: Mapping[str, Functions] = (
            {"elites": tuple(self.archive.best)} if self.shows_elites and self.archive.best else {}
        )
        return archipelago.Selection(tuple(parents), inspirations)

    def best_fn(self) -> function.Function:
        best = max(self._members.values(), key=_get_fitness, default=self._base)
        if best is None:
            raise errors.NotFound("The pool is empty.")
        return best

    def get(self, id: str) -> function.Function:
        fn = self._by_id.get(id) or self.archive.by_id.get(id)
        if fn is None:
            raise errors.NotFound(f"The pool keeps no candidate {id}.")
        return fn

    def update_evaluation(self, fn: function.Function) -> None:
        text = str(fn.skeleton())
        if text not in self._members:
            raise errors.NotFound(f"The pool keeps no candidate {get_id(fn)}.")
        self._by_id[get_id(fn)] = fn
        if fn.score() is None:
            del self._members[text]  # what failed late leaves
        else:
            self._members[text] = fn


def get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else f"draft {id(fn)}"


def get_members(island: archipelago.Island) -> list[function.Function]:
    """Returns the worldlines of an island, without the base."""
    return island.population.members if isinstance(island.population, WorldlinePopulation) else []


def make_populations(
    sampling: ParentSampling, num_islands: int, num_problems: int, archive_size: int, *, shows_elites: bool
) -> "PopulationFactory":
    """Returns what makes the islands' populations; those of one problem share a hall."""
    archives = [EliteArchive(archive_size) for _ in range(num_problems)]
    return lambda island, rng, announce: WorldlinePopulation(
        sampling, archives[island // num_islands], rng, shows_elites
    )


type PopulationFactory = Callable[[int, Random, object], WorldlinePopulation]
