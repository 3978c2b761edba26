"""Governed self-evolution: parameters, evidence, shadows, approval, tools and skills."""

from atoll.governed.parameters import (
    Change,
    Gap,
    MemoryParameters,
    Parameters,
    ParameterStore,
    Snapshot,
    Transaction,
    Value,
    acting,
    actor,
)

__all__ = [
    "Change",
    "Gap",
    "MemoryParameters",
    "ParameterStore",
    "Parameters",
    "Snapshot",
    "Transaction",
    "Value",
    "acting",
    "actor",
]
