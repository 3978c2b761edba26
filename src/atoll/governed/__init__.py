"""Governed self-evolution: parameters, evidence, shadows, approval, tools and skills."""

from atoll.governed.evolution import Evolution, Quota, QuotaExceeded
from atoll.governed.parameters import (
    Cached,
    Change,
    FilesParameters,
    Gap,
    MemoryParameters,
    Parameters,
    ParameterStore,
    Rules,
    Snapshot,
    StoredParameters,
    Transaction,
    Value,
    acting,
    actor,
)
from atoll.governed.proposals import LATER, Decided, Decider, Policy, Proposal, Proposals, SecretFound

__all__ = [
    "LATER",
    "Cached",
    "Change",
    "Decided",
    "Decider",
    "Evolution",
    "FilesParameters",
    "Gap",
    "MemoryParameters",
    "ParameterStore",
    "Parameters",
    "Policy",
    "Proposal",
    "Proposals",
    "Quota",
    "QuotaExceeded",
    "Rules",
    "SecretFound",
    "Snapshot",
    "StoredParameters",
    "Transaction",
    "Value",
    "acting",
    "actor",
]
