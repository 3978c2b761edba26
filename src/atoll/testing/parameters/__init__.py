"""Test suite for parameter stores."""

from atoll.testing.parameters.contract import ParameterStoreContract

__all__ = ["ParameterStoreContract"]
