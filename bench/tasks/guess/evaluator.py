"""Says how near a guess is; trusts the program, as evaluators do."""

from pathlib import Path
from typing import Any

SOUGHT = 0.73
PERFECT = 1.0


def evaluate(program_path: str) -> dict[str, float]:
    """Returns `combined_score`, and which program it was."""
    program: dict[str, Any] = {"__name__": "program"}
    exec(compile(Path(program_path).read_text(encoding="utf-8"), program_path, "exec"), program)
    error = abs(program["guess"]() - SOUGHT)
    return {"combined_score": PERFECT - error, "number": float(program["NUMBER"])}
