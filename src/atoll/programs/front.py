"""The Pareto front over instances: who is best on each, and of equals there the one that is better on the whole."""

from collections.abc import Hashable
from random import Random
from typing import Any

from atoll import cluster, function


class InstanceCluster(cluster.EliteCluster):
    """All that are best on one instance; offers the better of two of them.

    An easy instance is solved by nearly all, so that equals drawn evenly would mostly be poor parents; GEPA leaves out
    what others dominate, for which it looks at the whole pool in every step.
    """

    def __init__(self, rng: Random, profilers: cluster.ClusterProfilers, instance: Any) -> None:
        super().__init__(rng, profilers, value=lambda fn: _get_instance_score(fn, instance), ties=True)

    def select_fn(self) -> function.Function:
        members = self._require_members()
        return self._emit_selected(max(self._rng.choice(members), self._rng.choice(members), key=function.get_fitness))


def make_pareto_population(island: int, rng: Random, profilers: cluster.ClusterProfilers) -> cluster.NichedPopulation:
    """Returns a pool with a niche per instance, each drawn as often as any."""

    def make_cluster(key: Hashable) -> InstanceCluster:
        return InstanceCluster(rng, profilers, key)

    return cluster.NichedPopulation(cluster.by_instance, make_cluster, cluster.WeightSelector(rng), num_parents=2)


def _get_instance_score(fn: function.Function, index: int) -> float:
    return fn.evaluation.scores[index] if fn.evaluation else float("-inf")
