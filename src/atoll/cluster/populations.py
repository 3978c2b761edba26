"""Populations: niches (FunSearch's clusters, MAP-Elites' cells, a Pareto front), or the versions of a key."""

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Protocol, runtime_checkable
from weakref import WeakValueDictionary

from atoll import archipelago, errors, evaluation, function, gate, versions
from atoll.candidate import Candidate
from atoll.cluster.clusters import ListableCluster
from atoll.cluster.selectors import Selector


class NicheKey(Protocol):
    """Returns the niches of a function: one or several."""

    def __call__(self, fn: function.Function) -> Sequence[Hashable]: ...


@runtime_checkable
class GrowingKey(Protocol):
    """A niche key whose results may change. Then `generation` rises and all members are assigned again."""

    @property
    def generation(self) -> int: ...


def by_signature(fn: function.Function) -> Sequence[Hashable]:
    """One niche per signature (FunSearch), identified by its hash."""
    return (hashlib.blake2b(fn.signature().encode(), digest_size=16).digest(),)


def by_instance(fn: function.Function) -> Sequence[Hashable]:
    """One niche per input (the Pareto front of GEPA, with elites by that input's score)."""
    return range(len(fn.evaluation.scores)) if fn.evaluation else ()


def single_niche(fn: function.Function) -> Sequence[Hashable]:
    """One niche for all."""
    return ("everyone",)


class FeatureBins:
    """Cells of a grid over features (MAP-Elites), with growing ranges.

    A range doubles when a value falls outside, so two old cells merge into one. The elites are those that all
    functions so far would give, and members are assigned again O(log range) times in a run.
    """

    def __init__(self, features: Sequence[Callable[[function.Function], float]], num_bins: int = 10) -> None:
        if num_bins < 2 or num_bins % 2:
            raise errors.SetupError(f"A feature needs an even number of bins, at least 2, not {num_bins}.")
        self._features, self._num_bins = features, num_bins
        self._ranges: list[tuple[int, float] | None] = [None] * len(features)  # (lowest in widths, width of a bin)
        self.generation = 0

    def __call__(self, fn: function.Function) -> Sequence[Hashable]:
        values = [float(feature(fn)) for feature in self._features]  # all first: one that raises must not move a range
        return (tuple(self._find_bin(index, value) for index, value in enumerate(values)),)

    def _find_bin(self, index: int, value: float) -> int:
        if not math.isfinite(value):
            return -1
        value = min(max(value, -1e300), 1e300)  # keeps widths finite
        # Widths are powers of 2 and cells lie at their multiples, so rounding never splits a cell.
        width = 2.0 ** (math.frexp(max(abs(value), 1.0))[1] - 20)
        low, width = self._ranges[index] or (math.floor(value / width), width)
        while not low <= (cell := math.floor(value / width)) < low + self._num_bins:
            # The new half lies above or below the old range, which stays inside.
            low, width = (low // 2 if cell >= low else -((self._num_bins - low) // 2)), width * 2
        if self._ranges[index] != (low, width):
            self.generation += self._ranges[index] is not None
            self._ranges[index] = (low, width)
        return cell - low


@dataclass(eq=False)
class NichedPopulation:
    """Functions in clusters by niche. A selector draws clusters; each drawn cluster selects a parent.

    Attributes:
        num_parents: Number of drawn clusters, one parent each.
        inspirations: Further candidates for the prompt, by role.
    """

    niche_key: NicheKey
    make_cluster: Callable[[Hashable], ListableCluster]
    selector: Selector
    _: KW_ONLY
    num_parents: int = 2
    inspirations: Callable[["NichedPopulation"], Mapping[str, Sequence[function.Function]]] = lambda population: {}

    def __post_init__(self) -> None:
        self._growing_key = self.niche_key if isinstance(self.niche_key, GrowingKey) else None
        self._num_added = 0
        self._best: function.Function | None = None
        self._rebuild(())

    @property
    def clusters(self) -> Mapping[Hashable, ListableCluster]:
        return {key: self._clusters[index] for key, index in self._index.items()}

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        keys = errors.capture(lambda: self._compute_keys(fn))
        if isinstance(keys, errors.CaughtException):
            return gate.Decision("reject", f"the niche key raised {keys}", "keys")
        if self._growing_key is not None and self._growing_key.generation != self._generation:
            self._rebuild(self._members())
        if keys:
            self._num_added += 1
            self._insert(fn, keys)
        return decision

    def select(self) -> archipelago.Selection:
        indices = self.selector.select(self.num_parents, self._num_added)
        parents = sorted((self._clusters[index].select_fn() for index in indices), key=function.get_fitness)
        inspirations = {role: tuple(fns) for role, fns in self.inspirations(self).items()}
        return archipelago.Selection(tuple(parents), inspirations)

    def best_fn(self) -> function.Function:
        if self._best is None:
            raise errors.NotFound("The population is empty.")
        return self._best

    def get(self, id: str) -> function.Function:
        fn = self._by_id.get(id)
        if fn is None:
            raise errors.NotFound(f"Candidate {id} is not in the population.")
        return fn

    def update_evaluation(self, fn: function.Function) -> None:
        members = {_get_id(member): member for member in self._members()}
        if _get_id(fn) not in members:
            raise errors.NotFound(f"Candidate {_get_id(fn)} is not in the population.")
        keys = errors.capture(lambda: self._compute_keys(fn))
        if keys and not isinstance(keys, errors.CaughtException):
            members[_get_id(fn)] = fn
        elif len(members) > 1:
            del members[_get_id(fn)]  # it failed later; the last member stays
        self._rebuild(members.values())

    def _compute_keys(self, fn: function.Function) -> Sequence[Hashable]:
        """Returns the niches of a function with a score; an unhashable key raises here."""
        return tuple(dict.fromkeys(self.niche_key(fn))) if fn.score() is not None else ()

    def _insert(self, fn: function.Function, keys: Sequence[Hashable]) -> None:
        existing = self._by_id.get(_get_id(fn))
        if existing is not None and self._is_member(existing):
            return  # a migrant returned; the member here may have a newer evaluation
        self._by_id[_get_id(fn)] = fn
        if self._best is None or function.get_fitness(fn) > function.get_fitness(self._best):
            self._best = fn
        for key in keys:
            index = self._index.setdefault(key, len(self._clusters))
            if index == len(self._clusters):
                self._clusters.append(self.make_cluster(key))
            cluster = self._clusters[index]
            cluster.add_fn(fn)
            self.selector.set(index, function.get_fitness(cluster.best_fn()), len(cluster.members()))

    def _is_member(self, fn: function.Function) -> bool:
        indices = [self._index[key] for key in self._compute_keys(fn) if key in self._index]
        return fn is self._best or any(member is fn for index in indices for member in self._clusters[index].members())

    def _members(self) -> Sequence[function.Function]:
        members = {_get_id(fn): fn for cluster in self._clusters for fn in cluster.members()}
        if self._best is not None:  # clusters may compare by another value and drop it
            members.setdefault(_get_id(self._best), self._best)
        return list(members.values())

    def _rebuild(self, members: Iterable[function.Function]) -> None:
        self._index: dict[Hashable, int] = {}
        self._clusters: list[ListableCluster] = []
        self._by_id: WeakValueDictionary[str, function.Function] = WeakValueDictionary()  # keeps no function alive
        self._best = None
        self._generation = self._growing_key.generation if self._growing_key else 0
        self.selector.clear()
        for fn in members:
            self._insert(fn, self._compute_keys(fn))


def _get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else f"draft {id(fn)}"


@dataclass(eq=False, slots=True)
class VersionedPopulation:
    """Selects the current version of a key as the parent; an accepted child becomes the new version.

    The version is set before the iteration is recorded, with a token of run and candidate, so an iteration that runs
    again after a crash finds its own version. A child of an older version is rejected as stale.
    """

    store: versions.Versions
    key: str
    initial: function.Function
    make_skeleton: Callable[[str], function.Skeleton[..., Any]]
    _: KW_ONLY
    run_id: str
    _evaluations: dict[str, tuple[evaluation.Evaluation, float | None]] = field(default_factory=dict, init=False)

    def add_fn(self, fn: function.Function, decision: gate.Decision) -> gate.Decision:
        candidate = fn.candidate
        assert candidate is not None, "the evolver adds only functions with a candidate"
        if decision.version is None:
            base_version = next((int(id.rpartition("@")[2]) for id in candidate.parents if self._is_own_version(id)), 0)
            token = f"{self.run_id}/{self.key}/{candidate.id}"
            try:
                change = (self.key, candidate.content, decision.reason, decision.decided_by)
                decision = replace(decision, version=self.store.set(*change, expected=base_version, token=token).id)
            except errors.Conflict as conflict:
                return gate.Decision("reject", f"stale: {conflict}", "versions")
            except errors.SetupError as refusal:
                return gate.Decision("reject", str(refusal), "versions")
        if decision.version is not None and fn.evaluation is not None:
            self._evaluations[decision.version] = (fn.evaluation, fn.score())
        return decision

    def select(self) -> archipelago.Selection:
        return archipelago.Selection([self.best_fn()])

    def best_fn(self) -> function.Function:
        return self._make_fn(self.store.get(self.key))

    def get(self, id: str) -> function.Function:
        if not self._is_own_version(id):
            raise errors.NotFound(f"{id} is not a version of {self.key}.")
        return self._make_fn(self.store.get(self.key, int(id.rpartition("@")[2])))

    def update_evaluation(self, fn: function.Function) -> None:
        if fn.candidate is None or not self._is_own_version(fn.candidate.id):
            raise errors.NotFound(f"{fn.candidate and fn.candidate.id} is not a version of {self.key}.")
        if fn.evaluation is not None:
            self._evaluations[fn.candidate.id] = (fn.evaluation, fn.score())

    def _make_fn(self, version: versions.Version) -> function.Function:
        result, fitness = self._evaluations.get(version.id, (None, None))
        skeleton = self.make_skeleton(version.value)
        return self.initial.clone(skeleton).with_evaluation(Candidate(version.id, version.value), result, fitness)

    def _is_own_version(self, id: str) -> bool:
        return id.rpartition("@")[0] == self.key
