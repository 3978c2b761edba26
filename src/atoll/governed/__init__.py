"""Governed self-evolution: parameters, evidence, shadows, approval, tools and skills."""

from atoll.governed.parameters import (
    Change,
    FilesParameters,
    Gap,
    MemoryParameters,
    Parameters,
    ParameterStore,
    Snapshot,
    StoredParameters,
    Transaction,
    Value,
    acting,
    actor,
)

__all__ = [
    "Change",
    "FilesParameters",
    "Gap",
    "MemoryParameters",
    "ParameterStore",
    "Parameters",
    "Snapshot",
    "StoredParameters",
    "Transaction",
    "Value",
    "acting",
    "actor",
]
