"""Seeds that an evaluator sets, passed on to a program in another sandbox."""

import functools
import importlib
import os
import random
import sys
import types
from collections.abc import Callable
from typing import Any

from atoll.sandbox.apart import stand_in


def forward_seeds(folder: str) -> None:
    """Makes seeds that the evaluator sets apply to the program too; called once, before candidates.

    Args:
        folder: Folder of the evaluator. `numpy.random` makes every fork slower, so it is loaded only for a module of
            this folder that names it.
    """
    _replace_seed("random", random)
    if "numpy" in sys.modules and ("numpy.random" in sys.modules or _names_random(folder)):
        _replace_seed("numpy", importlib.import_module("numpy.random"))


def _names_random(folder: str) -> bool:
    paths = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for path in paths:
        if path and os.path.dirname(os.path.abspath(path)) == folder:
            with open(path, "rb") as file:
                if b"random" in file.read():
                    return True
    return False


def _replace_seed(name: str, module: types.ModuleType) -> None:
    vars(module)["seed"] = _make_seed(name, module.seed)


def _make_seed(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def seed(value: Any = None, *args: Any) -> None:
        original(value, *args)
        if value is None or isinstance(value, int | float | str):
            stand_in.note_seed(name, value)

    return seed
