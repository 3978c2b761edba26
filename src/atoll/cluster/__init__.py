"""The kernel's implementation: clusters, populations, selectors, schedules, islands and their evolver."""

from atoll.cluster.clusters import Cluster, ClusterEvent, ClusterProfilers, ListableCluster, OnFnAdded, OnFnSelected
from atoll.cluster.selectors import RankSelector, Selector, SoftmaxSelector, WeightSelector

# isort: split
from atoll.cluster.archipelago_state import Island
from atoll.cluster.clusters import DefaultCluster, EliteCluster, TournamentCluster
from atoll.cluster.config import EvolverConfig, IslandConfig, MakePopulation, by_score, funsearch_population
from atoll.cluster.evolver import Evolver
from atoll.cluster.populations import (
    FeatureBins,
    NichedPopulation,
    NicheKey,
    VersionedPopulation,
    by_instance,
    by_signature,
    single_niche,
)
from atoll.cluster.schedules import ResetRule, RoundRobin, make_generation_schedule, reset_worst_half

# fmt: off
__all__ = [
    "Cluster",
    "ClusterEvent",
    "ClusterProfilers",
    "DefaultCluster",
    "EliteCluster",
    "Evolver",
    "EvolverConfig",
    "FeatureBins",
    "Island",
    "IslandConfig",
    "ListableCluster",
    "MakePopulation",
    "NicheKey",
    "NichedPopulation",
    "OnFnAdded",
    "OnFnSelected",
    "RankSelector",
    "ResetRule",
    "RoundRobin",
    "Selector",
    "SoftmaxSelector",
    "TournamentCluster",
    "VersionedPopulation",
    "WeightSelector",
    "by_instance",
    "by_score",
    "by_signature",
    "funsearch_population",
    "make_generation_schedule",
    "reset_worst_half",
    "single_niche",
]
# fmt: on
