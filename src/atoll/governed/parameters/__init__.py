"""Versioned parameters: reasons, authors, locks, aliases and an audit log."""

from atoll.governed.parameters.cache import CachedParameters
from atoll.governed.parameters.files import FileParameters
from atoll.governed.parameters.parameters import (
    MemoryParameters,
    Parameters,
    StoredParameters,
    author_context,
    get_current_author,
)
from atoll.governed.parameters.rules import Rules
from atoll.governed.parameters.store import Change, Gap, ParameterStore, Snapshot, Transaction, Value

__all__ = [
    "CachedParameters",
    "Change",
    "FileParameters",
    "Gap",
    "MemoryParameters",
    "ParameterStore",
    "Parameters",
    "Rules",
    "Snapshot",
    "StoredParameters",
    "Transaction",
    "Value",
    "author_context",
    "get_current_author",
]
