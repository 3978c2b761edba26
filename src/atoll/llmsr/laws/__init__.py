"""Laws for regression data without an LLM: sums of products of factors, found by pursuit and fitted by projection.

With an LLM the model writes equations instead, and their constants are fitted (`assembly.py`).
"""

from atoll.llmsr.laws.assembly import build
from atoll.llmsr.laws.regressor import Regressor, regress
from atoll.llmsr.laws.table import TRAIN_FILE

__all__ = ["TRAIN_FILE", "Regressor", "build", "regress"]
