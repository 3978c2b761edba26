"""Mind Evolution over worldlines. The names are imported when they are first used."""

import importlib
from typing import Any

_MODULES = {
    "MindEvolutionEngine": "engine",
    "WorldlineManager": "worldlines",
    "ReviewAgent": "review",
    "Worldline": "worldline",
    "Plan": "worldline",
    "WorldlineGraph": "graph",
    "initialize_worldline_graph": "graph",
    "Island": "loop",
    "initialize_islands": "loop",
    "tournament_selection": "loop",
    "recombination": "loop",
    "mutation": "loop",
    "run_worldline_plan": "loop",
    "rcc_refinement": "loop",
    "evaluate_worldline": "loop",
    "migrate": "loop",
    "reset_lowest_islands": "loop",
    "select_top_worldlines": "loop",
    "Weights": "fitness",
    "StoredWeights": "weights",
    "TextBackend": "kinds",
    "WorldlineBackend": "kinds",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"atoll.mind.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'atoll.mind' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
