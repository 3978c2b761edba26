"""The kernel at work: clusters, pools, choosers, schedules, islands and their evolver."""

from atoll.cluster.choosers import Chooser, RankChooser, SoftmaxChooser, WeightChooser
from atoll.cluster.clusters import Announce, Cluster, ClusterEvent, Kept, OnFnAdded, OnFnSelected

# isort: split
from atoll.cluster.clusters import DefaultCluster, EliteCluster, PoolCluster
from atoll.cluster.config import EvolverConfig, IslandConfig, MakePool, by_score, funsearch_pool
from atoll.cluster.evolver import Evolver
from atoll.cluster.head import Head
from atoll.cluster.island import Island
from atoll.cluster.niches import Bins, Keys, Niches, by_instance, by_signature, everyone
from atoll.cluster.schedules import Resets, RoundRobin, generations, reset_worst_half

# fmt: off
__all__ = [
    "Announce", "Bins", "Chooser", "Cluster", "ClusterEvent", "DefaultCluster", "EliteCluster", "Evolver",
    "EvolverConfig", "Head", "Island", "IslandConfig", "Kept", "Keys", "MakePool", "Niches", "OnFnAdded",
    "OnFnSelected", "PoolCluster", "RankChooser", "Resets", "RoundRobin", "SoftmaxChooser", "WeightChooser",
    "by_instance", "by_score", "by_signature", "everyone", "funsearch_pool", "generations", "reset_worst_half",
]
# fmt: on
