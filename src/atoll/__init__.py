"""Atoll evolves programs, prompts, plans and parameters, with and without LLMs.

Start with the function `atoll.evolve(initial, evaluator, budget="60s")`. All other names are modules, imported on
first use:

    from atoll import cluster, control, function, store

Prefer this form to `import atoll; atoll.cluster`: type checkers resolve it exactly.
"""

import importlib
from types import ModuleType

from atoll.evolve import evolve

__all__ = [
    "__version__",
    "archipelago",
    "candidate",
    "cluster",
    "config",
    "control",
    "errors",
    "evaluation",
    "evolve",
    "executor",
    "function",
    "gate",
    "governed",
    "journal",
    "llm",
    "llmsr",
    "mind",
    "mutation",
    "playbook",
    "profiler",
    "programs",
    "runs",
    "sandbox",
    "store",
    "strategies",
    "survival",
    "system",
    "testing",
    "versions",
]

__version__: str  # read from the installed package on first use


def __getattr__(name: str) -> ModuleType:
    if name == "__version__":
        return _version()  # type: ignore[return-value]  # the only name that is not a module
    if name in __all__:
        return importlib.import_module(f"atoll.{name}")
    raise AttributeError(f"module 'atoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)


def _version() -> str:
    from importlib import metadata  # slower than the rest of `import atoll`

    try:
        return metadata.version("atoll")
    except metadata.PackageNotFoundError:
        return "unknown"  # on PYTHONPATH, not installed
