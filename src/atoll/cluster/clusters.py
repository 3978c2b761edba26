"""Clusters: groups of functions that select one of their members as a parent."""

import math
from bisect import insort
from collections.abc import Callable, Sequence
from random import Random
from typing import Literal, NamedTuple, Protocol

from atoll import errors, function, profiler


class OnFnAdded(NamedTuple):
    type: Literal["on_fn_added"]
    payload: function.Function


class OnFnSelected(NamedTuple):
    type: Literal["on_fn_selected"]
    payload: tuple[list[function.Function], function.Function]


type ClusterEvent = OnFnAdded | OnFnSelected
type ClusterProfilers = profiler.Profilers[ClusterEvent] | None
type FitnessFunction = Callable[[function.Function], float]


class Cluster(profiler.Pluggable[ClusterEvent], Protocol):
    """A group of functions."""

    def add_fn(self, fn: function.Function) -> None: ...

    def select_fn(self) -> function.Function:
        """Returns one member as a parent."""

    def best_fn(self) -> function.Function:
        """Returns the best member, for migration."""


class ListableCluster(Cluster, Protocol):
    """A cluster that lists its members."""

    def members(self) -> Sequence[function.Function]: ...


class _BaseCluster:
    """Members and events of a cluster."""

    def __init__(self, rng: Random, profilers: ClusterProfilers = None) -> None:
        self._rng = rng
        self._profilers = profilers if profilers is not None else profiler.Profilers()
        self._fns: list[function.Function] = []

    def use_profiler(self, profiler_fn: profiler.ProfilerFn[ClusterEvent]) -> profiler.Remove:
        return self._profilers.use(profiler_fn)

    def members(self) -> Sequence[function.Function]:
        return self._fns

    def best_fn(self) -> function.Function:
        return self._require_members()[0]  # subclasses put the best first

    def _require_members(self) -> list[function.Function]:
        if not self._fns:
            raise errors.NotFound("The cluster is empty: add a function first.")
        return self._fns

    def _emit_added(self, fn: function.Function) -> None:
        self._profilers.emit(OnFnAdded("on_fn_added", fn))

    def _emit_selected(self, fn: function.Function) -> function.Function:
        if self._profilers:
            self._profilers.emit(OnFnSelected("on_fn_selected", (list(self._fns), fn)))
        return fn


class DefaultCluster(_BaseCluster):
    """Keeps all functions and selects shorter ones more often, as FunSearch: softmax of -(len - min) / (max + 1e-6).

    With `by_range` lengths are scaled to 0..1 instead.
    """

    def __init__(self, rng: Random, profilers: ClusterProfilers = None, *, by_range: bool = False) -> None:
        super().__init__(rng, profilers)
        self._by_range, self._shortest, self._longest = by_range, math.inf, 0
        self._best: function.Function | None = None

    def add_fn(self, fn: function.Function) -> None:
        length = len(str(fn.skeleton()))
        self._shortest, self._longest = min(self._shortest, length), max(self._longest, length)
        if self._best is None or function.get_fitness(fn) > function.get_fitness(self._best):
            self._best = fn
        self._fns.append(fn)
        self._emit_added(fn)

    def select_fn(self) -> function.Function:
        # Rejection sampling with exp(-x), x in 0..1, is the exact softmax, in at most e tries on average.
        scale = self._longest - (self._shortest if self._by_range else 0) + 1e-6
        while True:
            fn = self._rng.choice(self._require_members())
            if self._rng.random() < math.exp((self._shortest - len(str(fn.skeleton()))) / scale):
                return self._emit_selected(fn)

    def best_fn(self) -> function.Function:
        return self._best or self._require_members()[0]


class EliteCluster(_BaseCluster):
    """Keeps the best by `value`: the earliest of equals, or with `ties` all of them. Selects uniformly."""

    def __init__(
        self,
        rng: Random,
        profilers: ClusterProfilers = None,
        *,
        value: FitnessFunction = function.get_fitness,
        ties: bool = False,
    ) -> None:
        super().__init__(rng, profilers)
        self._value_function, self._ties = value, ties

    def _compute_value(self, fn: function.Function) -> float:
        value = errors.capture(lambda: float(self._value_function(fn)))
        return -math.inf if isinstance(value, errors.CaughtException) or math.isnan(value) else value

    def add_fn(self, fn: function.Function) -> None:
        if not self._fns or self._compute_value(fn) > self._compute_value(self._fns[0]):
            self._fns = [fn]
        elif self._ties and self._compute_value(fn) == self._compute_value(self._fns[0]):
            self._fns.append(fn)
        self._emit_added(fn)

    def select_fn(self) -> function.Function:
        return self._emit_selected(self._rng.choice(self._require_members()))


class TournamentCluster(_BaseCluster):
    """Keeps the best `limit` distinct texts; selects the winner of a tournament, drawn with replacement."""

    def __init__(
        self, rng: Random, profilers: ClusterProfilers = None, *, limit: int = 100, tournament_size: int = 2
    ) -> None:
        super().__init__(rng, profilers)
        self._limit, self._tournament_size = limit, tournament_size
        self._texts: set[str] = set()

    def add_fn(self, fn: function.Function) -> None:
        if str(fn.skeleton()) not in self._texts:
            insort(self._fns, fn, key=lambda member: -function.get_fitness(member))  # best first, then earliest
            self._texts.add(str(fn.skeleton()))
            self._texts.difference_update(str(removed.skeleton()) for removed in self._fns[self._limit :])
            del self._fns[self._limit :]
        self._emit_added(fn)

    def select_fn(self) -> function.Function:
        indices = [self._rng.randrange(len(self._require_members())) for _ in range(self._tournament_size)]
        return self._emit_selected(self._fns[min(indices)])
