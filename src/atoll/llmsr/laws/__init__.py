"""Search for laws in tables of numbers: expression trees in views of the data, and sums of products.

An LLM can propose formulas beside the search (`formulas.py`), or search alone (`build.py`).
"""

from atoll.llmsr.laws.build import build_law_search
from atoll.llmsr.laws.regressor import Regressor, regress
from atoll.llmsr.laws.table import has_tables

__all__ = ["Regressor", "build_law_search", "has_tables", "regress"]
