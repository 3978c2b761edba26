"""Test suite for selectors."""

import math
import random
import time
from abc import ABC, abstractmethod
from random import Random

from atoll import cluster

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
