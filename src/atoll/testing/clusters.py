"""Test suites for clusters."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any

from atoll import cluster, errors, function
from atoll.testing import assertions
from atoll.testing.fakes import make_evaluated_function


class ClusterSuite(ABC):
    """Tests for a cluster. Subclass it and implement `make`."""

    @abstractmethod
    def make(self) -> cluster.Cluster:
        """Returns a new, empty cluster with the same seed each time."""

    def value(self, fn: function.Function) -> float:
        """Returns the value by which the cluster compares functions; the fitness by default."""
        return function.get_fitness(fn)

    def test_empty_cluster_raises_not_found(self) -> None:
        """`select_fn` and `best_fn` of an empty cluster raise `NotFound`."""
        empty = self.make()
        with assertions.raises(errors.NotFound):
            empty.select_fn()
        with assertions.raises(errors.NotFound):
            empty.best_fn()

    def test_best_function_is_never_lost(self) -> None:
        """`best_fn` is the best of all functions ever added."""
        cluster, added = self.make(), list[function.Function]()
        for fn in _make_functions():
            cluster.add_fn(fn)
            added.append(fn)
            assert self.value(cluster.best_fn()) == max(map(self.value, added))

    def test_earlier_function_wins_ties(self) -> None:
        """A function with the best score does not replace the first one."""
        cluster, first = self.make(), make_evaluated_function(1.0, "first")
        equal, worse = make_evaluated_function(1.0, "equal"), make_evaluated_function(0.5, "worse")
        for fn in (make_evaluated_function(0.0, "worst"), first, equal, worse):
            cluster.add_fn(fn)
        assert cluster.best_fn() is first

    def test_single_function_is_selected(self) -> None:
        """A single function is selected at any score."""
        for score in (-1e9, 0.0, 1e9):
            cluster, fn = self.make(), make_evaluated_function(score)
            cluster.add_fn(fn)
            assert cluster.select_fn() is fn

    def test_selected_function_was_added(self) -> None:
        """`select_fn` returns an added function, not a copy."""
        cluster, crowd = self.make(), _make_functions()
        for fn in crowd:
            cluster.add_fn(fn)
        assert {id(cluster.select_fn()) for _ in range(200)} <= {id(fn) for fn in crowd}

    def test_selection_changes_nothing(self) -> None:
        """A selection removes nothing; the best stays the same."""
        cluster = self.make()
        for fn in _make_functions():
            cluster.add_fn(fn)
        best = cluster.best_fn()
        for _ in range(50):
            cluster.select_fn()
        assert cluster.best_fn() is best

    def test_same_seed_selects_the_same(self) -> None:
        """Two clusters with the same seed and functions select the same."""
        first, second = self.make(), self.make()
        for fn in _make_functions():
            first.add_fn(fn)
            second.add_fn(fn)
        assert [id(first.select_fn()) for _ in range(100)] == [id(second.select_fn()) for _ in range(100)]

    def test_addition_is_announced(self) -> None:
        """`on_fn_added` carries the function, once per addition, until the profiler is removed."""
        cluster, events, fn = self.make(), list[Any](), make_evaluated_function(1.0)
        remove = cluster.use_profiler(events.append)
        cluster.add_fn(fn)
        remove()
        cluster.add_fn(make_evaluated_function(2.0))
        assert [(event.type, event.payload) for event in events] == [("on_fn_added", fn)]

    def test_selection_is_announced_with_its_choices(self) -> None:
        """`on_fn_selected` carries the functions to choose from and the chosen one, which is among them."""
        cluster, events = self.make(), list[Any]()
        for fn in _make_functions():
            cluster.add_fn(fn)
        cluster.use_profiler(events.append)
        chosen = cluster.select_fn()
        (event,) = events
        assert event.type == "on_fn_selected"
        assert event.payload[1] is chosen
        assert any(fn is chosen for fn in event.payload[0])

    def test_raising_profiler_is_ignored(self) -> None:
        """A failing profiler does not affect the cluster or other profilers."""
        cluster, events = self.make(), list[Any]()

        def explode(event: object) -> None:
            raise RuntimeError("a profiler that raises")

        cluster.use_profiler(explode)
        cluster.use_profiler(events.append)
        cluster.add_fn(make_evaluated_function(1.0))
        assert cluster.select_fn() is cluster.best_fn()
        assert len(events) == 2


class ListableClusterSuite(ClusterSuite):
    """Tests for clusters that list their members, as `NichedPopulation` needs them."""

    @abstractmethod
    def make(self) -> cluster.ListableCluster: ...

    def test_empty_cluster_has_no_members(self) -> None:
        """`members` is empty before the first addition."""
        assert list(self.make().members()) == []

    def test_best_function_is_a_member(self) -> None:
        """A cluster never drops its best function."""
        cluster = self.make()
        for fn in _make_functions():
            cluster.add_fn(fn)
            assert any(member is cluster.best_fn() for member in cluster.members())

    def test_selected_function_is_a_member(self) -> None:
        """A dropped function is never selected again."""
        cluster = self.make()
        for fn in _make_functions():
            cluster.add_fn(fn)
        members = {id(fn) for fn in cluster.members()}
        assert {id(cluster.select_fn()) for _ in range(200)} <= members


def _make_functions() -> Sequence[function.Function]:
    """Returns functions of different texts, lengths and scores, some scores equal."""
    rng = Random("crowd")
    return [
        make_evaluated_function(rng.randrange(10), f"{iteration}{'x' * rng.randrange(40)}", id=f"{iteration}.0")
        for iteration in range(1, 41)
    ]
