"""Population of an island. Parents are selected by a Boltzmann tournament."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from weakref import WeakValueDictionary

from atoll import archipelago, cluster, errors, function, gate
from atoll.mind import plan_evaluator

type Functions = Sequence[function.Function]


def select_by_tournament(fitness_values: Sequence[float], k: int, rng: Random, temperature: float = 0.03) -> list[int]:
    """Selects k different indices by the softmax of their fitness (a Boltzmann tournament), worst first.

    The k highest values of fitness / temperature + Gumbel noise are draws from the softmax without replacement.
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
    """Settings of the parent selection.

    Attributes:
        num_parents: Maximal number of parents.
        pr_no_parents: Probability of no parents. With 1/6 and 5, each number from 0 to 5 is equally likely.
        temperature: Temperature of the softmax, in units of fitness. The paper does not state it.
        max_members: Maximal size of an island; the worst are removed.
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
    """Best worldlines of all islands of one problem. Resets do not affect it.

    Attributes:
        max_size: Maximal number of elites.
        best: Distinct worldlines by common score, best first.
        selected_ids: Ids of the good and diverse elites that an LLM selected last.
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
    """Distinct worldlines of one island. Members leave by a reset, or when the population is full.

    Attributes:
        shows_elites: Whether a selection contains the elites, so that an LLM can select among them for a reset.
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
            # A migrant that returns is not added again. Its id still leads to the member that is here.
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
            raise errors.NotFound("The population is empty.")
        return best

    def get(self, id: str) -> function.Function:
        fn = self._by_id.get(id) or self.archive.by_id.get(id)
        if fn is None:
            raise errors.NotFound(f"Candidate {id} not found in the population.")
        return fn

    def update_evaluation(self, fn: function.Function) -> None:
        text = str(fn.skeleton())
        if text not in self._members:
            raise errors.NotFound(f"Candidate {get_id(fn)} not found in the population.")
        self._by_id[get_id(fn)] = fn
        if fn.score() is None:
            del self._members[text]  # a later evaluation failed
        else:
            self._members[text] = fn


def get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else f"draft {id(fn)}"


def get_members(island: archipelago.Island) -> list[function.Function]:
    """Returns the worldlines of an island without the base."""
    return island.population.members if isinstance(island.population, WorldlinePopulation) else []


def make_populations(
    sampling: ParentSampling, num_islands: int, num_problems: int, archive_size: int, *, shows_elites: bool
) -> "PopulationFactory":
    """Returns a factory of populations. The islands of one problem share an elite archive."""
    archives = [EliteArchive(archive_size) for _ in range(num_problems)]
    return lambda island, rng, announce: WorldlinePopulation(
        sampling, archives[island // num_islands], rng, shows_elites
    )


type PopulationFactory = Callable[[int, Random, object], WorldlinePopulation]
