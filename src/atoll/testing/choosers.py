"""What every chooser promises."""

import math
import random
import time
from abc import ABC, abstractmethod
from random import Random

from atoll import cluster

_FEW, _MANY = 256, 16_384


class ChooserSuite(ABC):
    """Subclass it, say how to make a chooser, and every test runs on yours."""

    @abstractmethod
    def make(self, rng: Random) -> cluster.Chooser:
        """Returns a new chooser, of no clusters, that draws from this generator."""

    def test_nothing_is_chosen_of_nothing(self) -> None:
        """Without clusters the choice is empty."""
        assert list(self.make(Random(0)).choose(2, 0)) == []

    def test_a_single_cluster_is_chosen_at_any_score(self) -> None:
        """One cluster is always drawn: its score may have any scale, and -inf is that of a failure."""
        for score in (-math.inf, -1e12, -5000.0, -1.0, -1e-12, 0.0, 1e-12, 1.0, 5000.0, 1e12):
            chooser = self.make(Random(0))
            chooser.set(0, score, 1)
            assert set(chooser.choose(2, 1)) == {0}, f"with the score {score}"

    def test_some_cluster_is_chosen_at_any_scale_of_scores(self) -> None:
        """Scores may lie close together or far apart, and may change by any amount."""
        for scale in (1e-12, 1.0, 1e4, 1e12):
            chooser = self.make(Random(0))
            for index, score in enumerate((-3.0, -2.0, 4.0, 0.0)):
                chooser.set(index, score * scale, 1)
                assert chooser.choose(2, index + 1)
            for index in range(4):
                chooser.set(index, -9.0 * scale, 1)
                assert chooser.choose(2, 4), f"with scores around {-9.0 * scale} that were higher before"

    def test_at_most_k_clusters_are_chosen_and_all_of_them_exist(self) -> None:
        """A choice holds up to k indices of clusters that were set."""
        chooser = _filled(self.make(Random(0)), 7)
        for k in (0, 1, 2, 5, 7, 20):
            for registered in range(50):
                chosen = chooser.choose(k, registered)
                assert len(chosen) <= k
                assert all(0 <= index < 7 for index in chosen)

    def test_equal_seeds_choose_the_same(self) -> None:
        """All dice come from the generator passed in."""
        before = random.getstate()
        first, second = _filled(self.make(Random(5)), 20), _filled(self.make(Random(5)), 20)
        for registered in range(100):
            assert list(first.choose(2, registered)) == list(second.choose(2, registered))
        assert random.getstate() == before, "it drew from the global generator"

    def test_setting_draws_no_random_number(self) -> None:
        """A resume sets the clusters again and must find the generator as it was."""
        rng = Random(3)
        before = rng.getstate()
        chooser = _filled(self.make(rng), 50)
        chooser.clear()
        _filled(chooser, 10)
        assert rng.getstate() == before

    def test_a_cleared_chooser_is_as_good_as_new(self) -> None:
        """`clear` forgets all clusters and leaves nothing behind."""
        rng, fresh_rng = Random(0), Random(0)
        used, fresh = _filled(self.make(rng), 30), _filled(self.make(fresh_rng), 5)
        used.choose(2, 30)
        used.clear()
        assert list(used.choose(2, 30)) == []
        _filled(used, 5)
        rng.seed(1)
        fresh_rng.seed(1)
        assert [list(used.choose(2, 5)) for _ in range(50)] == [list(fresh.choose(2, 5)) for _ in range(50)]

    def test_earlier_choices_leave_no_trace(self) -> None:
        """A choice hangs on the clusters, `registered` and the generator alone.

        A resume sets the clusters as they were set before and chooses nothing; what is chosen next must be the same.
        """
        rng, other_rng = Random(0), Random(0)
        used, fresh = _filled(self.make(rng), 30), _filled(self.make(other_rng), 30)
        for registered in range(30, 60_000, 60):
            used.choose(2, registered)
        for registered in (31, 10_000, 29_999, 30_001):
            rng.seed(registered)
            other_rng.seed(registered)
            chosen = [list(chooser.choose(2, registered)) for chooser in (used, fresh) for _ in range(50)]
            assert chosen[:50] == chosen[50:], f"with {registered} registered"

    def test_a_cluster_set_to_what_it_was_changes_nothing(self) -> None:
        """Setting the same score and size again is no news."""
        rng, other_rng = Random(0), Random(0)
        chooser, other = _filled(self.make(rng), 9), _filled(self.make(other_rng), 9)
        for index in (4, 0, 8, 4):
            chooser.set(index, _score(index), 1)
        assert [list(chooser.choose(2, 9)) for _ in range(50)] == [list(other.choose(2, 9)) for _ in range(50)]

    def test_a_step_costs_about_the_same_with_many_clusters(self) -> None:
        """`set` and `choose` take O(log n) amortised: a step never touches all clusters.

        Measured in processor time, sizes alternately, the best of several: a linear chooser would be 64 times slower.
        """
        choosers = {size: _filled(self.make(Random(0)), size) for size in (_FEW, _MANY)}
        seconds = {size: min(_time(chooser, size, turn) for turn in range(4)) for size, chooser in choosers.items()}
        assert seconds[_MANY] < 8 * seconds[_FEW], seconds


def _score(index: int) -> float:
    return Random(index).random()


def _filled[T: cluster.Chooser](chooser: T, size: int) -> T:
    for index in range(size):
        chooser.set(index, _score(index), 1)
    return chooser


def _time(chooser: cluster.Chooser, size: int, turn: int) -> float:
    rng, steps = Random(turn), 500
    since = time.thread_time()
    for step in range(steps):
        chooser.choose(2, size + turn * steps + step)
        chooser.set(rng.randrange(size), rng.random(), 1)
    return time.thread_time() - since
