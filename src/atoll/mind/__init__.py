"""Mind Evolution over worldlines. Names are imported at first use."""

import importlib
from typing import Any

_MODULES = {
    "MindEvolutionEngine": "engine",
    "WorldlineManager": "worldline_manager",
    "ReviewAgent": "worldline_manager",
    "Worldline": "worldline",
    "Plan": "worldline",
    "WorldlineGraph": "worldline",
    "initialize_worldline_graph": "worldline",
    "Island": "reference_loop",
    "initialize_islands": "reference_loop",
    "tournament_selection": "reference_loop",
    "recombination": "reference_loop",
    "mutation": "reference_loop",
    "run_worldline_plan": "reference_loop",
    "rcc_refinement": "reference_loop",
    "evaluate_worldline": "reference_loop",
    "migrate": "reference_loop",
    "reset_lowest_islands": "reference_loop",
    "select_top_worldlines": "reference_loop",
    "Weights": "fitness",
    "StoredWeights": "fitness_weights",
    "TextBackend": "worldline",
    "WorldlineBackend": "worldline",
}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(importlib.import_module(f"atoll.mind.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'atoll.mind' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
