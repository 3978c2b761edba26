"""What every store of parameters promises."""

from atoll.testing.parameters.contract import ParameterStoreContract

__all__ = ["ParameterStoreContract"]
