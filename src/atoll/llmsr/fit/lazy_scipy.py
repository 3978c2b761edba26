"""scipy, imported on first use: it is an optional package of 140 MB that only fits and law search need.

from atoll.llmsr.fit.lazy_scipy import scipy

scipy.linalg.lapack.dgeqrf(columns)
"""

import importlib
from typing import Any

from atoll import errors


class _LazyScipy:
    """Imports a submodule of scipy when it is read, and keeps it."""

    def __getattr__(self, name: str) -> Any:
        check_scipy()
        module = importlib.import_module(f"scipy.{name}")
        setattr(self, name, module)
        return module


scipy: Any = _LazyScipy()


def check_scipy() -> None:
    """Checks that scipy is installed.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        importlib.import_module("scipy")
    except ImportError as error:
        raise errors.MissingExtra("Law search needs scipy. Run: pip install 'atoll[laws]'.") from error
