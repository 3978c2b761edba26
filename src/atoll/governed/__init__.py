"""Governed self-evolution: parameters, evidence, shadows, approval, tools and skills."""

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

__all__ = [
    "Cached",
    "Change",
    "FilesParameters",
    "Gap",
    "MemoryParameters",
    "ParameterStore",
    "Parameters",
    "Rules",
    "Snapshot",
    "StoredParameters",
    "Transaction",
    "Value",
    "acting",
    "actor",
]
