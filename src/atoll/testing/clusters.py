"""What every cluster promises."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any

from atoll import cluster, errors, function
from atoll.testing import claims
from atoll.testing.functions import settled


class ClusterSuite(ABC):
    """Subclass it, say how to make an empty cluster, and every test runs on yours."""

    @abstractmethod
    def make(self) -> cluster.Cluster:
        """Returns a new, empty cluster, seeded alike each time."""

    def value(self, fn: function.Function) -> float:
        """Returns what the cluster compares functions by; its island's rank unless yours does otherwise."""
        return function.rank_of(fn)

    def test_an_empty_cluster_has_nothing_to_offer(self) -> None:
        """`select_fn` and `best_fn` of an empty cluster raise `NotFound`."""
        empty = self.make()
        with claims.raises(errors.NotFound):
            empty.select_fn()
        with claims.raises(errors.NotFound):
            empty.best_fn()

    def test_the_best_is_never_lost(self) -> None:
        """`best_fn` is the best of all that were ever added, however many came since."""
        cluster, added = self.make(), list[function.Function]()
        for fn in _crowd():
            cluster.add_fn(fn)
            added.append(fn)
            assert self.value(cluster.best_fn()) == max(map(self.value, added))

    def test_of_equals_the_earlier_is_the_best(self) -> None:
        """A function as good as the best does not take its place."""
        cluster, first = self.make(), settled(1.0, "first")
        for fn in (settled(0.0, "worse"), first, settled(1.0, "equal"), settled(0.5, "after")):
            cluster.add_fn(fn)
        assert cluster.best_fn() is first

    def test_a_single_function_is_offered(self) -> None:
        """What was added alone is what is offered, whatever its score."""
        for score in (-1e9, 0.0, 1e9):
            cluster, fn = self.make(), settled(score)
            cluster.add_fn(fn)
            assert cluster.select_fn() is fn

    def test_only_what_was_added_is_offered(self) -> None:
        """`select_fn` returns one of the functions added, itself and no copy."""
        cluster, crowd = self.make(), _crowd()
        for fn in crowd:
            cluster.add_fn(fn)
        assert {id(cluster.select_fn()) for _ in range(200)} <= {id(fn) for fn in crowd}

    def test_offering_changes_nothing(self) -> None:
        """A selection removes nothing: the best stays the best."""
        cluster = self.make()
        for fn in _crowd():
            cluster.add_fn(fn)
        best = cluster.best_fn()
        for _ in range(50):
            cluster.select_fn()
        assert cluster.best_fn() is best

    def test_equal_seeds_offer_the_same(self) -> None:
        """All dice come from the generator passed in: two clusters made alike and fed alike offer alike."""
        first, second = self.make(), self.make()
        for fn in _crowd():
            first.add_fn(fn)
            second.add_fn(fn)
        assert [id(first.select_fn()) for _ in range(100)] == [id(second.select_fn()) for _ in range(100)]

    def test_an_addition_is_announced(self) -> None:
        """`on_fn_added` carries the function, once per addition, until the profiler is removed."""
        cluster, heard, fn = self.make(), list[Any](), settled(1.0)
        remove = cluster.use_profiler(heard.append)
        cluster.add_fn(fn)
        remove()
        cluster.add_fn(settled(2.0))
        assert [(event.type, event.payload) for event in heard] == [("on_fn_added", fn)]

    def test_a_selection_is_announced_with_what_it_was_made_from(self) -> None:
        """`on_fn_selected` carries the functions to choose from and the chosen one, which is among them."""
        cluster, heard = self.make(), list[Any]()
        for fn in _crowd():
            cluster.add_fn(fn)
        cluster.use_profiler(heard.append)
        chosen = cluster.select_fn()
        (event,) = heard
        assert event.type == "on_fn_selected"
        assert event.payload[1] is chosen
        assert any(fn is chosen for fn in event.payload[0])

    def test_a_profiler_that_raises_stops_nothing(self) -> None:
        """Observers cannot change anything, not even by failing."""
        cluster, heard = self.make(), list[Any]()

        def explode(event: object) -> None:
            raise RuntimeError("a profiler that raises")

        cluster.use_profiler(explode)
        cluster.use_profiler(heard.append)
        cluster.add_fn(settled(1.0))
        assert cluster.select_fn() is cluster.best_fn()
        assert len(heard) == 2


class KeptSuite(ClusterSuite):
    """For clusters that also show what they keep, as `Niches` needs them."""

    @abstractmethod
    def make(self) -> cluster.Kept: ...

    def test_an_empty_cluster_keeps_nobody(self) -> None:
        """`members` is empty before anything was added."""
        assert list(self.make().members()) == []

    def test_the_best_is_a_member(self) -> None:
        """Whatever a cluster drops, it keeps its best."""
        cluster = self.make()
        for fn in _crowd():
            cluster.add_fn(fn)
            assert any(each is cluster.best_fn() for each in cluster.members())

    def test_only_members_are_offered(self) -> None:
        """What was dropped is never offered again."""
        cluster = self.make()
        for fn in _crowd():
            cluster.add_fn(fn)
        members = {id(fn) for fn in cluster.members()}
        assert {id(cluster.select_fn()) for _ in range(200)} <= members


def _crowd() -> Sequence[function.Function]:
    """Returns functions of different texts, lengths and scores, some scores equal."""
    rng = Random("crowd")
    return [settled(rng.randrange(10), f"{step}{'x' * rng.randrange(40)}", id=f"{step}.0") for step in range(1, 41)]
