"""Compares a swing with one that was watched; half a millisecond, mostly compiling, so that evolving is the cost."""

import math
from pathlib import Path
from typing import Any

from openevolve.evaluation_result import EvaluationResult

NUM_STEPS, STEP_SECONDS = 20, 0.1
OBSERVED = [math.exp(-0.73 * step * STEP_SECONDS) * math.cos(0.2 * math.pi * step) for step in range(NUM_STEPS)]


def evaluate(program_path: str) -> EvaluationResult:
    """Returns `combined_score`, 1 for a swing like the one that was watched, and where it was furthest from it."""
    program: dict[str, Any] = {"__name__": "program"}
    exec(compile(Path(program_path).read_text(encoding="utf-8"), program_path, "exec"), program)
    errors = [
        abs(text - observed) for text, observed in zip(program["path"](NUM_STEPS, STEP_SECONDS), OBSERVED, strict=True)
    ]
    worst = max(range(NUM_STEPS), key=errors.__getitem__)
    message = f"Furthest off at step {worst}: by {errors[worst]:.3g}; in all {sum(errors):.3g} over {NUM_STEPS} steps."
    return EvaluationResult({"combined_score": 1.0 / (1.0 + sum(errors))}, {"errors": message})
