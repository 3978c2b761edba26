"""Law search with the interface of scikit-learn, which need not be installed.

If scikit-learn is imported, its own checks run too, and errors are also errors of the types that it expects.
"""

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import numpy.typing as npt

from atoll import cluster, control, errors
from atoll.llmsr.fit import lazy_scipy
from atoll.llmsr.laws import build, constants, constraints, engine, population, result, search, table
from atoll.llmsr.laws.law import Array

_MIN_SECONDS = 0.1  # of search, however long the preparation takes
_OPTIONS = (
    *("seconds", "steps", "seed", "names", "num_islands", "random_state", "verbose"),
    *("units", "monotonic", "symmetric", "bounds", "poles", "margin"),
)


class Extrapolation(UserWarning):
    """Warning that a law is used outside of the ranges of its training rows."""


class Regressor:
    """Finds a law y = f(X): `fit`, then `predict`, `law` and `front_`.

    Args:
        seconds: Time limit; None for no time limit.
        steps: Number of iterations. With it alone, the same seed gives the same law.
        seed: Random seed.
        names: Names of the variables; by default the columns of a data frame, or x0, x1, ...
        num_islands: Number of islands.
        random_state: Random seed under the name of scikit-learn: a number or a generator. It replaces `seed`.
        verbose: Whether to print the front of error and size as it grows.
        units: Units by name, such as {"m": "kg"}; the target is "y". A law must have consistent units.
        monotonic: "increasing" or "decreasing" by name.
        symmetric: Groups of names whose exchange does not change the law; a single one may change its sign.
        bounds: Smallest and largest value of the law.
        poles: Whether the law may have poles outside of the data.
        margin: How far beyond the data the requirements hold, as a share of its range.

    Ctrl-C ends the search early; the result is the best law so far.

    Attributes:
        law_: The recommended law (after `fit`).
        front_: (size, error, law as text) of all laws that no smaller law beats, smallest first.
        error_: Mean squared error of the law divided by the variance of y.
        noise_: Estimated standard deviation of the noise of y, if the law is right.
        constants_: Constants of the law, each with its standard error.
        runners_up_: (law as text, error, measurement that would decide) of laws that are nearly as good.
        num_fits_: Number of fitted structures.
        n_features_in_: Number of variables.
        names_: Their names in the law.
        feature_names_in_: Names of the columns, if X is a data frame and they are texts.
    """

    def __init__(
        self,
        *,
        seconds: float | None = 10.0,
        steps: int | None = None,
        seed: int = 0,
        names: Sequence[str] | None = None,
        num_islands: int = 1,
        random_state: Any = None,
        verbose: bool = False,
        units: Mapping[str, str] | None = None,
        monotonic: Mapping[str, Literal["increasing", "decreasing"]] | None = None,
        symmetric: Sequence[Sequence[str]] = (),
        bounds: tuple[float | None, float | None] = (None, None),
        poles: bool = True,
        margin: float = 0.2,
    ) -> None:
        self.seconds, self.steps, self.seed, self.names, self.num_islands = seconds, steps, seed, names, num_islands
        self.random_state, self.verbose = random_state, verbose
        self.units, self.monotonic, self.symmetric = units, monotonic, symmetric
        self.bounds, self.poles, self.margin = bounds, poles, margin

    def __repr__(self) -> str:
        description = f"law={self.law!r}, error={self.error_:.3g}" if hasattr(self, "law_") else "not fitted"
        return f"{type(self).__name__}({description})"

    def __sklearn_tags__(self) -> Any:
        """Describes the estimator to scikit-learn."""
        from sklearn import utils

        return utils.Tags(
            estimator_type="regressor",
            target_tags=utils.TargetTags(required=True),
            regressor_tags=utils.RegressorTags(),
            input_tags=utils.InputTags(),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "law_")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the options by name, as scikit-learn requires."""
        return {name: getattr(self, name) for name in _OPTIONS}

    def set_params(self, **options: Any) -> Self:
        """Changes options.

        Raises:
            SetupError: An option does not exist.
        """
        for name, value in options.items():
            if name not in _OPTIONS:
                raise errors.SetupError(f"Option {name} does not exist. Use one of {', '.join(_OPTIONS)}.")
            setattr(self, name, value)
        return self

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:  # noqa: N803 (as in scikit-learn)
        """Searches for a law.

        Raises:
            SetupError: The data is not usable, neither seconds nor steps is set, or scipy is not installed.
        """
        return self._fit_table(self._validate(X, y), getattr(X, "columns", ()))

    def _fit_table(self, train: table.Table, columns: Iterable[object]) -> Self:
        if self.seconds is None and self.steps is None:
            raise errors.SetupError("The search has no limit. Set seconds or steps.")
        lazy_scipy.check_scipy()
        began = time.monotonic()
        law_search = search.Search(train.rows, train.domain)
        requirements = constraints.Requirements(
            self.units or {}, self.monotonic or {}, self.symmetric, *self.bounds, self.poles, self.margin
        )
        limits = constraints.Constraints(requirements, train)
        config = build.make_config(train, law_search, self.num_islands, limits=limits)
        if self.steps is not None:
            budget = control.Budget(iterations=self.steps)
        else:  # the preparation takes part of the time
            seconds = (self.seconds or 0.0) - (time.monotonic() - began)
            budget = control.Budget(seconds=max(seconds, _MIN_SECONDS))
        is_ordered = self.steps is not None
        run_config = replace(config, num_parallel=1, budget=budget, seed=self._get_seed(), ordered=is_ordered)
        evolver = cluster.Evolver(run_config)
        proposer = config.island_config.mutation_engine
        assert isinstance(proposer, engine.LawMutator)
        if self.verbose:
            evolver.islands[0].use_profiler(_make_printer())  # one island reports the events of all
        try:
            evolver.run()
        except KeyboardInterrupt:
            warnings.warn("The search was interrupted. The law is the best so far.", stacklevel=2)
        conclusion = result.conclude(evolver, train, limits)
        self.law_, self.error_, self.num_fits_ = conclusion.chosen.law, conclusion.chosen.error, proposer.num_fits
        rows = [(item.law, item.error) for item in conclusion.front]
        self.front_ = [(found_law.size, error, found_law.to_text(train.names)) for found_law, error in rows]
        self._train = train
        self.noise_, self.constants_ = conclusion.doubt.noise, conclusion.doubt.constants
        self.runners_up_ = [
            (item.law.to_text(train.names), item.error, item.decide) for item in conclusion.doubt.runners_up
        ]
        self.names_, self.n_features_in_ = list(train.names), len(train.names)
        vars(self).pop("feature_names_in_", None)  # of an earlier fit
        column_names = list(columns)
        if column_names and all(isinstance(name, str) for name in column_names):
            self.feature_names_in_ = np.array(column_names, dtype=object)
        return self

    def predict(self, X: npt.ArrayLike) -> Array:  # noqa: N803 (as in scikit-learn)
        """Returns the values of the law, which are finite for every finite input.

        It warns with `Extrapolation` if rows are outside of the ranges of the training rows.

        Raises:
            SetupError: The regressor was not fitted, or X has another number of columns.
        """
        self._check_fitted()
        invalid = _find_sklearn_error(self, X, reset=False)
        rows = table.to_matrix(X, "X") if invalid is None else np.empty((0, 0))
        if invalid is not None:
            columns = np.shape(X)[1] if np.ndim(X) == 2 else self.n_features_in_
            own = f"X has {columns} columns. The law needs {self.n_features_in_}."
            raise _combine(errors.SetupError(own) if columns != self.n_features_in_ else None, invalid) from invalid
        if rows.shape[1] != self.n_features_in_:
            raise errors.SetupError(f"X has {rows.shape[1]} columns. The law needs {self.n_features_in_}.")
        if shares := constants.find_extrapolation(rows, self._train):
            names = ", ".join(f"{name} in {share:.0%} of the rows" for name, share in shares.items())
            warnings.warn(f"The law extrapolates. Outside of the training range: {names}.", Extrapolation, stacklevel=2)
        return self.law_.predict(np.ascontiguousarray(rows.T))

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike) -> float:  # noqa: N803 (as in scikit-learn)
        """Returns R², the explained share of the variance."""
        target = np.asarray(y, dtype=np.float64)
        with warnings.catch_warnings(action="ignore", category=Extrapolation):
            predicted = self.predict(X)
        return 1.0 - float(np.mean((target - predicted) ** 2) / np.var(target))

    @property
    def law(self) -> str:
        """The recommended law as a Python expression with numpy.

        Raises:
            SetupError: The regressor was not fitted.
        """
        self._check_fitted()
        return self.law_.to_text(self.names_)

    def sympy(self) -> Any:
        """Returns the law as an expression of sympy, which must be installed."""
        import sympy

        self._check_fitted()
        functions = {"abs": sympy.Abs, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan}
        names = {name: getattr(sympy, name) for name in ("sin", "cos", "tan", "tanh", "exp", "log", "sqrt")}
        symbols = {name: sympy.Symbol(name, real=True) for name in self.names_}
        return sympy.sympify(self.law.replace("np.", ""), locals={**names, **functions, **symbols})

    def latex(self) -> str:
        """Returns the law as LaTeX. sympy must be installed."""
        import sympy

        return str(sympy.latex(self.sympy()))

    def plot(self) -> Any:
        """Draws the training rows against the law, and the front. Returns the figure of matplotlib.

        Raises:
            SetupError: The regressor was not fitted, or matplotlib is not installed.
        """
        self._check_fitted()
        try:
            from matplotlib import figure
        except ImportError as error:
            raise errors.SetupError("plot() needs matplotlib. Install it: pip install matplotlib.") from error
        drawing = figure.Figure(figsize=(10.0, 4.5), layout="constrained")
        rows_axes, front_axes = drawing.subplots(1, 2)
        predicted, target = self.law_.predict(np.ascontiguousarray(self._train.x.T)), self._train.y
        ends = [float(target.min()), float(target.max())]
        rows_axes.plot(ends, ends, color="gray", linewidth=1)
        rows_axes.plot(predicted, target, ".", markersize=3)
        rows_axes.set(xlabel="law", ylabel=self._train.target, title=_shorten(self.law))
        sizes, front_errors = [size for size, _, _ in self.front_], [max(error, 1e-32) for _, error, _ in self.front_]
        front_axes.step(sizes, front_errors, where="post", marker="o", markersize=4)
        front_axes.plot([self.law_.size], [max(self.error_, 1e-32)], "o", color="red")
        front_axes.set(xlabel="size (nodes)", ylabel="error (NMSE)", yscale="log", title="front; the law is red")
        return drawing

    def _check_fitted(self) -> None:
        if hasattr(self, "law_"):
            return
        message = "The regressor has no law. Call fit(X, y) first."
        if _uses_sklearn():
            from sklearn.exceptions import NotFittedError

            raise _combine(None, NotFittedError(message))
        raise errors.SetupError(message)

    def _get_seed(self) -> int:
        if self.random_state is None:
            return self.seed
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return int(self.random_state.randint(2**31))

    def _validate(self, x: npt.ArrayLike, y: npt.ArrayLike) -> table.Table:
        invalid = _find_sklearn_error(self, x, y=y, y_numeric=True, ensure_min_samples=2)
        try:
            with warnings.catch_warnings(action="ignore"):
                train = self._make_table(x, y, getattr(x, "columns", None))
        except errors.SetupError as error:
            raise _combine(error, invalid or ValueError(str(error))) from invalid
        if invalid is not None:
            raise _combine(None, invalid) from invalid
        return train

    def _make_table(self, x: npt.ArrayLike, y: npt.ArrayLike, columns: Any) -> table.Table:
        rows, target = table.to_matrix(x, "X"), table.to_matrix(np.atleast_2d(np.asarray(y)), "y")
        if target.size != len(rows):
            raise errors.SetupError(f"X has {len(rows)} rows and y has {target.size} values. They must be equal.")
        column_names = self.names if self.names is not None else columns
        default_names = [f"x{index}" for index in range(rows.shape[1])]
        names = default_names if column_names is None else [str(name) for name in column_names]
        if len(names) != rows.shape[1]:
            raise errors.SetupError(f"X has {rows.shape[1]} columns and {len(names)} names. Name each column.")
        table.check_data(names, rows, target.ravel(), "The data")
        return table.Table(table.make_identifiers(names), "y", rows, target.ravel())


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _make_printer() -> Callable[[Any], None]:
    """Returns a profiler that prints the laws that lower the front, on stderr."""
    summarize = population.FrontSummarizer()

    def print_law(event: Any) -> None:
        summary = summarize(event.payload)
        if summary.group:
            sys.stderr.write(f"{summary.text}\n")

    return print_law


def _uses_sklearn() -> bool:
    return "sklearn" in sys.modules


def _find_sklearn_error(regressor: Regressor, x: Any, **options: Any) -> Exception | None:
    """Returns the error that scikit-learn finds in data; None if it is not imported or finds none."""
    if not _uses_sklearn():
        return None
    from sklearn.utils.validation import validate_data

    try:
        validate_data(regressor, x, dtype="float64", **options)
    except (TypeError, ValueError) as error:
        return error
    return None


def _combine(own: errors.SetupError | None, other: Exception) -> errors.SetupError:
    """Returns an error of both types, with both messages."""
    kind = type("InvalidData", (errors.SetupError, type(other)), {"__module__": __name__})
    is_new = own is not None and str(own) != str(other)
    return cast(errors.SetupError, kind(f"{own} ({other})" if is_new else str(other)))


def regress(
    X: Any,  # noqa: N803 (as in scikit-learn)
    y: Any = None,
    *,
    names: Sequence[str] | None = None,
    seconds: float | None = 10.0,
    steps: int | None = None,
    seed: int = 0,
    derivative: str | None = None,
    **options: Any,
) -> Regressor:
    """Finds a law for data and returns the fitted regressor. The other arguments are those of `Regressor`.

    Args:
        X: Rows by columns, a data frame, or the path of a CSV or Parquet file.
        y: The target; for a data frame or a file also the name of its column, by default the last one.
        names: Names of the variables.
        seconds: Time limit.
        steps: Number of iterations.
        seed: Random seed.
        derivative: Time column of a data frame or file. The law then computes the derivative of y by time.
        options: Other options of `Regressor`.

    Raises:
        SetupError: The data is not usable.
    """
    regressor = Regressor(seconds=seconds, steps=steps, seed=seed, names=names, **options)
    reader = table.TableReader(y if isinstance(y, str) else None, derivative)
    if isinstance(X, str | Path):
        train = reader.read(Path(X))
    elif (y is None or isinstance(y, str)) and hasattr(X, "columns"):
        train = reader.select([str(column) for column in X.columns], table.to_matrix(X, "X"), "X")
    elif derivative is not None or y is None:
        raise errors.SetupError("X has no named columns. Pass a data frame or a file, or set y to the target values.")
    else:
        return regressor.fit(X, y)
    table.check_data(train.names, train.x, train.y, "The data")
    if names is not None:
        train = train._replace(names=table.make_identifiers(names))
    return regressor._fit_table(train, ())
