"""Governed self-evolution: parameters, evidence, shadows, approval, tools and skills."""

from atoll.governed.agent.evolver import Evolver, QuotaExceeded, SessionQuota
from atoll.governed.approval import DEFER, AlreadyDecided, Decider, Policy, Proposal, Proposals, SecretFound
from atoll.governed.parameters import (
    CachedParameters,
    Change,
    FileParameters,
    Gap,
    MemoryParameters,
    Parameters,
    ParameterStore,
    Rules,
    Snapshot,
    StoredParameters,
    Transaction,
    Value,
    author_context,
    get_current_author,
)

__all__ = [
    "DEFER",
    "CachedParameters",
    "Change",
    "AlreadyDecided",
    "Decider",
    "Evolver",
    "FileParameters",
    "Gap",
    "MemoryParameters",
    "ParameterStore",
    "Parameters",
    "Policy",
    "Proposal",
    "Proposals",
    "SessionQuota",
    "QuotaExceeded",
    "Rules",
    "SecretFound",
    "Snapshot",
    "StoredParameters",
    "Transaction",
    "Value",
    "author_context",
    "get_current_author",
]
