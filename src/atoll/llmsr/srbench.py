"""Names that SRBench expects in `algorithms/NAME/regressor.py`: `from atoll.llmsr.srbench import *`.

SRBench fits `est` on data frames, and compares the text of `model(est, X)` with the true formula by sympy. See
https://github.com/cavalab/srbench for the benchmark.
"""

from collections.abc import Mapping
from typing import Any

from atoll.llmsr.laws import Regressor

__all__ = ["complexity", "est", "eval_kwargs", "get_best_solution", "get_population", "model"]

_HOUR = 3600.0
_MANY_ROWS = 1000  # SRBench allows one hour for up to this many rows, ten hours for more
_RESERVE = 0.95  # share of the time for the search; the rest is for the choice of the law

est = Regressor(seconds=_RESERVE * _HOUR)


def model(est: Regressor, X: Any = None) -> str:  # noqa: N803 (as in SRBench)
    """Returns the law as text for sympy, with the names of the columns of X."""
    expression = est.sympy()
    columns = [str(column) for column in getattr(X, "columns", [])]
    if not columns:
        return str(expression)
    import sympy

    renamed = {
        sympy.Symbol(name, real=True): sympy.Symbol(column) for name, column in zip(est.names_, columns, strict=True)
    }
    return str(expression.subs(renamed, simultaneous=True))


def complexity(est: Regressor) -> int:
    """Returns the number of nodes of the law."""
    return est.law_.size


def get_population(est: Regressor) -> list[Regressor]:
    """Returns the law as the only element: SRBench needs estimators that can predict."""
    return [est]


def get_best_solution(est: Regressor) -> Regressor:
    """Returns the estimator, which predicts with its law."""
    return est


def set_time_limit(est: Regressor, X: Any, y: Any) -> None:  # noqa: N803 (as in SRBench)
    """Sets the time that SRBench allows for the number of rows."""
    est.set_params(seconds=_RESERVE * _HOUR * (1.0 if len(X) <= _MANY_ROWS else 10.0))


eval_kwargs: Mapping[str, Any] = {
    "pre_train": set_time_limit,
    "test_params": {"seconds": 10.0},
    "scale_x": False,
    "scale_y": False,
}
