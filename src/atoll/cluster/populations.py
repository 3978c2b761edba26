"""A pool of clusters: FunSearch's clusters, MAP-Elites' cells, a Pareto front or one bounded pool, by its keys."""

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
    """Says in which niches a function lives: one, or several."""

    def __call__(self, fn: function.Function) -> Sequence[Hashable]: ...


@runtime_checkable
class GrowingKey(Protocol):
    """Keys that may change for functions that have theirs already: then `generation` rises and all are keyed anew."""

    @property
    def generation(self) -> int: ...


def by_signature(fn: function.Function) -> Sequence[Hashable]:
    """One niche per signature (FunSearch), by its digest: a signature may be long."""
    return (hashlib.blake2b(fn.signature().encode(), digest_size=16).digest(),)


def by_instance(fn: function.Function) -> Sequence[Hashable]:
    """One niche per input (the Pareto front of GEPA, with elites by that input's score)."""
    return range(len(fn.evaluation.scores)) if fn.evaluation else ()


def single_niche(fn: function.Function) -> Sequence[Hashable]:
    """One niche for all."""
    return ("everyone",)


class FeatureBins:
    """Cells of a grid over features (MAP-Elites), whose ranges grow with what they see.

    A range doubles when a value falls outside, so that two old cells make one new cell exactly: the elites of the new
    grid are those that all functions ever seen would give, and keying anew happens O(log range) times in a run.
    """

    def __init__(self, features: Sequence[Callable[[function.Function], float]], num_bins: int = 10) -> None:
        if num_bins < 2 or num_bins % 2:
            raise errors.SetupError(f"A feature needs an even number of bins, at least 2, not {num_bins}.")
        self._features, self._num_bins = features, num_bins
        self._ranges: list[tuple[int, float] | None] = [None] * len(features)  # (lowest in widths, width of a bin)
        self.generation = 0

    def __call__(self, fn: function.Function) -> Sequence[Hashable]:
        values = [float(feature(fn)) for feature in self._features]  # all, before one that raises has moved a range
        return (tuple(self._find_bin(index, value) for index, value in enumerate(values)),)

    def _find_bin(self, index: int, value: float) -> int:
        if not math.isfinite(value):
            return -1
        value = min(max(value, -1e300), 1e300)  # beyond, a width could become infinite
        # Widths are powers of 2 and cells lie at their multiples: no rounding ever parts what shared a cell.
        width = 2.0 ** (math.frexp(max(abs(value), 1.0))[1] - 20)
        low, width = self._ranges[index] or (math.floor(value / width), width)
        while not low <= (cell := math.floor(value / width)) < low + self._num_bins:
            # Half of the new range lies above or below the old one; rounding to whole cells keeps the old one inside.
            low, width = (low // 2 if cell >= low else -((self._num_bins - low) // 2)), width * 2
        if self._ranges[index] != (low, width):
            self.generation += self._ranges[index] is not None
            self._ranges[index] = (low, width)
        return cell - low


@dataclass(eq=False)
class NichedPopulation:
    """Functions in clusters by key; a chooser draws the clusters, each cluster offers one of its own.

    Attributes:
        num_parents: How many clusters give a parent each.
        others: What else a step is shown, by role.
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
            return gate.Decision("reject", f"the keys raised {keys}", "keys")
        if self._growing_key is not None and self._growing_key.generation != self._generation:
            self._rebuild(self._members())
        if keys:
            self._num_added += 1
            self._insert(fn, keys)
        return decision

    def select(self) -> archipelago.Selection:
        indices = self.selector.select(self.num_parents, self._num_added)
        parents = sorted((self._clusters[index].select_fn() for index in indices), key=function.get_fitness)
        return archipelago.Selection(
            tuple(parents), {role: tuple(fns) for role, fns in self.inspirations(self).items()}
        )

    def best_fn(self) -> function.Function:
        if self._best is None:
            raise errors.NotFound("The pool is empty.")
        return self._best

    def get(self, id: str) -> function.Function:
        fn = self._by_id.get(id)
        if fn is None:
            raise errors.NotFound(f"The pool keeps no candidate {id}.")
        return fn

    def update_evaluation(self, fn: function.Function) -> None:
        members = {_get_id(member): member for member in self._members()}
        if _get_id(fn) not in members:
            raise errors.NotFound(f"The pool keeps no candidate {_get_id(fn)}.")
        keys = errors.capture(lambda: self._compute_keys(fn))
        if keys and not isinstance(keys, errors.CaughtException):
            members[_get_id(fn)] = fn
        elif len(members) > 1:
            del members[_get_id(fn)]  # what failed late leaves, unless nobody would be left
        self._rebuild(members.values())

    def _compute_keys(self, fn: function.Function) -> Sequence[Hashable]:
        """Returns the keys of what has a score; dict.fromkeys so that one that cannot be hashed raises here."""
        return tuple(dict.fromkeys(self.niche_key(fn))) if fn.score() is not None else ()

    def _insert(self, fn: function.Function, keys: Sequence[Hashable]) -> None:
        existing = self._by_id.get(_get_id(fn))
        if existing is not None and self._is_member(existing):
            return  # a migrant came home: who stands here knows more
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
        member_lists = [
            self._clusters[self._index[key]].members() for key in self._compute_keys(fn) if key in self._index
        ]
        return fn is self._best or any(member is fn for members in member_lists for member in members)

    def _members(self) -> Sequence[function.Function]:
        members = {_get_id(fn): fn for cluster in self._clusters for fn in cluster.members()}
        if self._best is not None:  # where clusters compare by something else, the best may be in none of them
            members.setdefault(_get_id(self._best), self._best)
        return list(members.values())

    def _rebuild(self, members: Iterable[function.Function]) -> None:
        self._index: dict[Hashable, int] = {}
        self._clusters: list[ListableCluster] = []
        self._by_id: WeakValueDictionary[str, function.Function] = WeakValueDictionary()  # holds nobody alive
        self._best = None
        self._generation = self._growing_key.generation if self._growing_key else 0
        self.selector.clear()
        for fn in members:
            self._insert(fn, self._compute_keys(fn))


def _get_id(fn: function.Function) -> str:
    return fn.candidate.id if fn.candidate else f"draft {id(fn)}"


@dataclass(eq=False, slots=True)
class VersionedPopulation:
    """Offers the head of a key as the parent and makes what is accepted the new head.

    The version is set before the step is recorded, under a token of the run and the candidate: a step that runs again
    after a crash finds its own version. Whoever was overtaken is rejected as stale.
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
        assert candidate is not None, "the kernel adds only what it settled"
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
            raise errors.NotFound(f"{id} is no version of {self.key}.")
        return self._make_fn(self.store.get(self.key, int(id.rpartition("@")[2])))

    def update_evaluation(self, fn: function.Function) -> None:
        if fn.candidate is None or not self._is_own_version(fn.candidate.id):
            raise errors.NotFound(f"{fn.candidate and fn.candidate.id} is no version of {self.key}.")
        if fn.evaluation is not None:
            self._evaluations[fn.candidate.id] = (fn.evaluation, fn.score())

    def _make_fn(self, version: versions.Version) -> function.Function:
        result, fitness = self._evaluations.get(version.id, (None, None))
        skeleton = self.make_skeleton(version.value)
        return self.initial.clone(skeleton).with_evaluation(Candidate(version.id, version.value), result, fitness)

    def _is_own_version(self, id: str) -> bool:
        return id.rpartition("@")[0] == self.key
