"""Test suites for clusters and for selectors of clusters."""

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any

from atoll import cluster, errors, function
from atoll.testing import fakes
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
        with fakes.raises(errors.NotFound):
            empty.select_fn()
        with fakes.raises(errors.NotFound):
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


_FEW, _MANY = 256, 16_384


class SelectorSuite(ABC):
    """Tests for a selector. Subclass it and implement `make`."""

    @abstractmethod
    def make(self, rng: Random) -> cluster.Selector:
        """Returns a new selector without clusters that uses this random generator."""

    def test_no_clusters_give_empty_selection(self) -> None:
        """Without clusters the selection is empty."""
        assert list(self.make(Random(0)).select(2, 0)) == []

    def test_single_cluster_is_selected_at_any_score(self) -> None:
        """A single cluster is always selected, at any score; -inf is the score of a failure."""
        for score in (-math.inf, -1e12, -5000.0, -1.0, -1e-12, 0.0, 1e-12, 1.0, 5000.0, 1e12):
            selector = self.make(Random(0))
            selector.set(0, score, 1)
            assert set(selector.select(2, 1)) == {0}, f"with the score {score}"

    def test_some_cluster_is_selected_at_any_score_scale(self) -> None:
        """Scores may lie close together or far apart, and may change by any amount."""
        for scale in (1e-12, 1.0, 1e4, 1e12):
            selector = self.make(Random(0))
            for index, score in enumerate((-3.0, -2.0, 4.0, 0.0)):
                selector.set(index, score * scale, 1)
                assert selector.select(2, index + 1)
            for index in range(4):
                selector.set(index, -9.0 * scale, 1)
                assert selector.select(2, 4), f"with scores around {-9.0 * scale} that were higher before"

    def test_at_most_k_existing_clusters_are_selected(self) -> None:
        """A selection has up to k indices of registered clusters."""
        selector = _fill(self.make(Random(0)), 7)
        for k in (0, 1, 2, 5, 7, 20):
            for num_registered in range(50):
                selected = selector.select(k, num_registered)
                assert len(selected) <= k
                assert all(0 <= index < 7 for index in selected)

    def test_same_seed_selects_the_same(self) -> None:
        """All random numbers come from the given generator."""
        state = random.getstate()
        first, second = _fill(self.make(Random(5)), 20), _fill(self.make(Random(5)), 20)
        for num_registered in range(100):
            assert list(first.select(2, num_registered)) == list(second.select(2, num_registered))
        assert random.getstate() == state, "it used the global generator"

    def test_set_draws_no_random_number(self) -> None:
        """A resume sets the clusters again and must not change the generator."""
        rng = Random(3)
        state = rng.getstate()
        selector = _fill(self.make(rng), 50)
        selector.clear()
        _fill(selector, 10)
        assert rng.getstate() == state

    def test_cleared_selector_equals_new_selector(self) -> None:
        """`clear` forgets all clusters and leaves nothing behind."""
        rng, new_rng = Random(0), Random(0)
        used_selector, new_selector = _fill(self.make(rng), 30), _fill(self.make(new_rng), 5)
        used_selector.select(2, 30)
        used_selector.clear()
        assert list(used_selector.select(2, 30)) == []
        _fill(used_selector, 5)
        rng.seed(1)
        new_rng.seed(1)
        for _ in range(50):
            assert list(used_selector.select(2, 5)) == list(new_selector.select(2, 5))

    def test_earlier_selections_have_no_effect(self) -> None:
        """A selection depends only on the clusters, `registered` and the generator.

        A resume sets the clusters again but repeats no selection. The next selection must be the same.
        """
        rng, new_rng = Random(0), Random(0)
        used_selector, new_selector = _fill(self.make(rng), 30), _fill(self.make(new_rng), 30)
        for num_registered in range(30, 60_000, 60):
            used_selector.select(2, num_registered)
        for num_registered in (31, 10_000, 29_999, 30_001):
            rng.seed(num_registered)
            new_rng.seed(num_registered)
            for _ in range(50):
                used, new = used_selector.select(2, num_registered), new_selector.select(2, num_registered)
                assert list(used) == list(new), f"with {num_registered} registered"

    def test_setting_same_score_changes_nothing(self) -> None:
        """Setting the same score and size again has no effect."""
        rng, other_rng = Random(0), Random(0)
        selector, other_selector = _fill(self.make(rng), 9), _fill(self.make(other_rng), 9)
        for index in (4, 0, 8, 4):
            selector.set(index, _make_score(index), 1)
        for _ in range(50):
            assert list(selector.select(2, 9)) == list(other_selector.select(2, 9))

    def test_cost_does_not_grow_with_number_of_clusters(self) -> None:
        """`set` and `select` take amortized O(log n).

        The test compares the best CPU times at two sizes. A linear selector would be 64 times slower.
        """
        selectors_by_size = {size: _fill(self.make(Random(0)), size) for size in (_FEW, _MANY)}
        seconds = {
            size: min(_measure_seconds(selector, size, repetition) for repetition in range(4))
            for size, selector in selectors_by_size.items()
        }
        assert seconds[_MANY] < 8 * seconds[_FEW], seconds


def _make_score(index: int) -> float:
    return Random(index).random()


def _fill[T: cluster.Selector](selector: T, size: int) -> T:
    for index in range(size):
        selector.set(index, _make_score(index), 1)
    return selector


def _measure_seconds(selector: cluster.Selector, size: int, repetition: int) -> float:
    rng, num_iterations = Random(repetition), 500
    start_time = time.thread_time()
    for iteration in range(num_iterations):
        selector.select(2, size + repetition * num_iterations + iteration)
        selector.set(rng.randrange(size), rng.random(), 1)
    return time.thread_time() - start_time
