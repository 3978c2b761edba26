"""Atoll evolves code, prompts, plans and parameters on islands, with LLMs and without them.

The names of the package are its modules, imported when they are first used:

    from atoll import cluster, control, function, store

They are modules and no classes on purpose: `from atoll import cluster` is typed exactly, whereas a class that is
looked up lazily would be `Any` to a type checker. For the same reason prefer it to `import atoll; atoll.cluster`.

One name is a function, since it is where most begin: `atoll.evolve(thing, evaluator, budget="60s")`.
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
    "survival",
    "system",
    "testing",
    "versions",
]

__version__: str  # read from the installed package when it is first asked for


def __getattr__(name: str) -> ModuleType:
    if name == "__version__":
        return _version()  # type: ignore[return-value]  # the one name that is no module
    if name in __all__:
        return importlib.import_module(f"atoll.{name}")
    raise AttributeError(f"module 'atoll' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)


def _version() -> str:
    from importlib import metadata  # takes longer than all the rest of `import atoll`

    try:
        return metadata.version("atoll")
    except metadata.PackageNotFoundError:
        return "unknown"  # sources on a path, never installed
