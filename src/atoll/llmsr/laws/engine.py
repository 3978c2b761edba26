"""Laws as candidates: skeleton, mutator and evaluator."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from atoll import evaluation, function
from atoll.llmsr import fit
from atoll.llmsr.laws import law, population, search
from atoll.llmsr.laws.law import Law
from atoll.llmsr.laws.least_squares import Rows

_NUM_EMPTY_STARTS, _EMPTY_START_PROBABILITY = 4, 0.01  # iterations that start without terms: the first, and later ones


class LawSkeleton:
    """Law as a skeleton. Its text is a Python function with all constants."""

    def __init__(self, law: Law, names: Sequence[str]) -> None:
        self.law, self._names = law, names
        self._text = law.to_source(names)

    def __call__(self, *columns: Any) -> Any:
        return self.law.predict(np.array([np.asarray(column, dtype=np.float64) for column in columns]))

    def __str__(self) -> str:
        return self._text

    def with_text(self, text: str) -> function.PyAstSkeleton:
        return function.PyAstSkeleton(text, {"np": np})


def get_law(fn: function.Function) -> Law | None:
    """Returns the law of a function; None if another proposer made it."""
    # Not from the skeleton: a resumed run has only its text, and must give the same results.
    data = _get_meta(fn).get("law")
    return law.from_data(data) if data else None


def _get_meta(fn: function.Function) -> Mapping[str, Any]:
    return fn.candidate.meta if fn.candidate else {}


class LawMutator:
    """Varies a law of the parents and proposes the few variants that reach the front."""

    def __init__(self, law_search: search.Search, names: Sequence[str]) -> None:
        self._search, self._names = law_search, names

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parents = [_to_screened_law(fn) for fn in context.parents]
        main, other = context.rng.choice(parents), context.rng.choice(parents)
        if context.iteration <= _NUM_EMPTY_STARTS or context.rng.random() < _EMPTY_START_PROBABILITY:
            main = search.ScreenedLaw(Law((), ()))
        children = self._search.search_batch(main, other.law, _get_front(context), context.rng)
        return [self._make_child(context.parents[-1], child) for child in children]

    def _make_child(self, parent: function.Function, child: search.ScreenedLaw) -> function.Function:
        shape = hashlib.blake2b(repr(law.get_shape(child.law.terms)).encode(), digest_size=8).hexdigest()
        return function.derive_child(
            parent,
            LawSkeleton(child.law, self._names),
            engine="laws",
            law=child.law.to_data(),
            rung=child.rung,
            screened=child.screened_error,
            shape=shape,
        )


def _to_screened_law(fn: function.Function) -> search.ScreenedLaw:
    known_law, meta = get_law(fn), _get_meta(fn)
    if known_law is None:
        return search.ScreenedLaw(Law((), ()))
    error = fn.evaluation.metrics["nmse"] if fn.evaluation else math.inf
    return search.ScreenedLaw(known_law, int(meta.get("rung", 0)), error, float(meta.get("screened", math.inf)))


def _get_front(context: function.ProposalContext) -> search.Front:
    front_metrics = [fn.evaluation.metrics for fn in context.inspirations.get("front", ()) if fn.evaluation]
    return [(int(metrics["size"]), metrics["nmse"]) for metrics in front_metrics]


class LawEvaluator:
    """Scores a function on all rows. For equations of an LLM it fits the constants first.

    Args:
        rows: The training rows, for laws.
        names: Names of the variables.
        data: The same rows, for equations.
    """

    def __init__(self, rows: Rows, names: Sequence[str], data: fit.Data) -> None:
        self._rows, self._names, self._data = rows, names, data

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        if isinstance(skeleton, LawSkeleton):
            error = self._rows.error(self._rows.target - skeleton.law.predict(self._rows.columns))
            return _make_evaluation(error, skeleton.law.size)
        try:
            equation = fit.parse(str(skeleton), self._names)
        except (fit.InvalidEquation, fit.UnsupportedEquation) as parse_error:
            return evaluation.failed(f"the equation cannot be parsed: {parse_error}")
        fitted = fit.fit(equation.expression, self._data, rng=Random(0))
        if fitted.failure is not None:
            return evaluation.failed(fitted.failure)
        constants = {f"params[{index}]": value for index, value in enumerate(fitted.params)}
        return _make_evaluation(fitted.nmse, equation.expression.size, **constants)


def _make_evaluation(error: float, size: int, **constants: float) -> evaluation.Evaluation:
    if not math.isfinite(error):
        return evaluation.failed("its values are not finite on every row")
    score = population.compute_score(error)
    return evaluation.Evaluation(score, (score,), {"nmse": error, "size": float(size), **constants})
