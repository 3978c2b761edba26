"""Judges equation skeletons: fits their constants to the training rows and scores what error is left."""

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from atoll import evaluation, function
from atoll.candidate import JSON
from atoll.evaluation import Evaluation
from atoll.llmsr import fit
from atoll.llmsr.laws.population import compute_score

AVAILABLE_NAMES: Mapping[str, Any] = {"np": np, "numpy": np, "math": math}  # what a skeleton finds without importing it
DEFAULT_NUM_PARAMS = 10  # as many as LLM-SR gives every skeleton
SHARD_DIGITS = 1  # of a shard's score that count for its signature


class Regression:
    """The job of a sandbox: takes the text of a skeleton, returns its fit as plain data.

        Workers(functools.partial(Regression, ("x", "v"), X, y))

    Text that can be read as one expression is never run: it is differentiated and fitted as data. Other text is run,
    here and therefore only ever in a sandbox, and fitted by differences; the note says so.

    The score is -log10(NMSE): one more is a tenth of the error. It is free of the target's unit, so that a softmax or a
    threshold means the same on every problem, and it tells 1e-9 from 1e-12, which -NMSE does not.

    Args:
        columns: Names of the columns, in the order of a skeleton's arguments.
        X: The training rows; no other rows belong here.
        y: Their target.
        num_shards: Into how many consecutive parts the rows are split for the signature.
        starts: See `fit.fit`.
        seed: Draws the starts, anew for every skeleton.
        names: What a skeleton that is run finds.

    Raises:
        SetupError: The data cannot be fitted; see `fit.Data`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        X: Any,  # noqa: N803 (as in scikit-learn)
        y: Any,
        *,
        num_shards: int = 4,
        num_starts: int = 4,
        seed: int = 0,
        names: Mapping[str, Any] = AVAILABLE_NAMES,
    ) -> None:
        self._data = fit.Data(columns, X, y)
        self._num_shards, self._num_starts, self._seed, self._names = num_shards, num_starts, seed, names
        constant_names = ", ".join(self._data.find_constant_columns())
        self._warning = (
            f"the same in every row, so nothing can be learnt from it: {constant_names}" if constant_names else ""
        )

    def __call__(self, source: str) -> JSON:
        """Returns score, scores per shard, params, mse, nmse, a note and the law in numbers; or a failure."""
        try:
            equation = fit.parse(source, self._data.names)
        except fit.InvalidEquation as error:
            return {"failure": str(error)}
        except fit.UnsupportedEquation as error:
            return self._fit_callable(source, str(error))
        fitted = fit.fit(
            equation.expression, self._data, rng=np.random.default_rng(self._seed), num_starts=self._num_starts
        )
        if fitted.failure is not None:
            return {"failure": fitted.failure}
        values = fit.Program(equation.expression).evaluate(self._data, fitted.params)
        law = fit.to_source(equation.expression, self._data.names, fitted.params)
        return self._to_json(fitted, values, "", law)

    def _fit_callable(self, source: str, reason: str) -> JSON:
        skeleton = function.PyAstSkeleton(source, self._names)
        rng = np.random.default_rng(self._seed)
        fitted = fit.fit_callable(skeleton, self._data, _num_params(source), rng=rng, num_starts=self._num_starts)
        if fitted.failure is not None:
            return {"failure": fitted.failure}
        with np.errstate(all="ignore"):
            returned = skeleton(*(column.copy() for column in self._data.columns), np.array(fitted.params))
        values = np.broadcast_to(np.asarray(returned, dtype=np.float64), self._data.y.shape)
        return self._to_json(fitted, values, f"fitted by differences, which is slow: {reason}", "")

    def _to_json(self, fitted: fit.FitResult, values: Any, note: str, law: str) -> JSON:
        squares = (values - self._data.y) ** 2 / self._data.variance
        shards = [float(part.mean()) for part in np.array_split(squares, min(self._num_shards, len(squares)))]
        return {
            "score": compute_score(fitted.nmse),
            "scores": [round(compute_score(error), SHARD_DIGITS) for error in shards],
            "params": list(fitted.params),
            "mse": fitted.mse,
            "nmse": fitted.nmse,
            "note": "; ".join(text for text in (note, self._warning) if text),
            "law": law,
        }


def parse_result(value: JSON) -> Evaluation:
    """Reads what `Regression` returned; the parameters are kept as metrics, and the feedback shows them."""
    match value:
        case {"failure": str(failure)}:
            return evaluation.failed(failure)
        case {"score": score, "scores": [*scores], "params": [*params], "nmse": nmse, "note": note, "law": law}:
            metrics: dict[str, Any] = {
                "nmse": nmse,
                **{f"params[{index}]": param for index, param in enumerate(params)},
            }
            fitted = ", ".join(f"{param:.6g}" for param in params if isinstance(param, float))
            lines = [f"NMSE {nmse:.4g} with params = [{fitted}]", f"= {law}" if law else "", str(note)]
            feedback = "\n".join(line for line in lines if line)
            return evaluation.validate(Evaluation(score, tuple(scores), metrics, feedback))  # type: ignore[arg-type]
    raise TypeError(f"expected what a regression returns, not {value!r:.80}")


def _num_params(source: str) -> int:
    """Returns how many parameters a text uses, as far as that can be seen; else as many as is usual."""
    function_ = next((node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)), None)
    arguments = [argument.arg for argument in function_.args.args] if function_ else []
    largest = -1
    for node in ast.walk(function_) if function_ and arguments else ():
        if isinstance(node, ast.Name) and node.id == arguments[-1] and isinstance(node.ctx, ast.Load):
            largest = max(largest, 0)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == arguments[-1]:
            if not isinstance(node.slice, ast.Constant) or not isinstance(node.slice.value, int):
                return DEFAULT_NUM_PARAMS
            largest = max(largest, node.slice.value)
    return largest + 1
