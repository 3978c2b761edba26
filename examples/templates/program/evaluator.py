"""Scores a program: the evaluator gets its path and returns metrics. Higher is better."""

import importlib.util
import random
from typing import Any


def evaluate(program_path: str) -> dict[str, Any]:
    """Returns the metrics. `combined_score` is the score; other numbers are shown beside it, texts go to the LLM."""
    spec = importlib.util.spec_from_file_location("program", program_path)
    program: Any = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]  # a .py file has a spec
    program.__spec__.loader.exec_module(program)
    rng, fullness = random.Random(0), []  # the same parcels for every program: no noise
    for _ in range(5):
        sizes = [rng.uniform(0.1, 0.7) for _ in range(60)]
        numbers = program.pack(list(sizes))
        loads: dict[int, float] = {}
        for number, size in zip(numbers, sizes, strict=True):
            loads[number] = loads.get(number, 0.0) + size
        if max(loads.values()) > 1.0 + 1e-9:
            return {"combined_score": 0.0, "error": f"A box holds {max(loads.values()):.2f}; at most 1 is allowed."}
        fullness.append(sum(sizes) / len(loads))
    return {"combined_score": sum(fullness) / len(fullness), "worst": min(fullness)}
