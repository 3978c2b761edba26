"""The Pareto front over instances: who is best on each, and of equals there the one that is better on the whole."""

from collections.abc import Hashable
from random import Random
from typing import Any

from atoll import cluster, function


class Front(cluster.EliteCluster):
    """All that are best on one instance; offers the better of two of them.

    An easy instance is solved by nearly all, so that equals drawn evenly would mostly be poor parents; GEPA leaves out
    what others dominate, for which it looks at the whole pool in every step.
    """

    def __init__(self, rng: Random, announce: cluster.Announce, instance: Any) -> None:
        super().__init__(rng, announce, value=lambda fn: _score_at(fn, instance), ties=True)

    def select_fn(self) -> function.Function:
        fns = self._some()
        return self._selected(max(self._rng.choice(fns), self._rng.choice(fns), key=function.rank_of))


def pareto_pool(island: int, rng: Random, announce: cluster.Announce) -> cluster.Niches:
    """Returns a pool with a niche per instance, each drawn as often as any."""

    def front(key: Hashable) -> Front:
        return Front(rng, announce, key)

    return cluster.Niches(cluster.by_instance, front, cluster.WeightChooser(rng), num_parents=2)


def _score_at(fn: function.Function, place: int) -> float:
    return fn.evaluation.scores[place] if fn.evaluation else float("-inf")
