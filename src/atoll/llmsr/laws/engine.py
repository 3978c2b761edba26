"""Laws as functions that evolve: how one is written down, proposed and judged."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from atoll import evaluation, function
from atoll.llmsr import fit
from atoll.llmsr.laws import law, pool, search
from atoll.llmsr.laws.law import Law
from atoll.llmsr.laws.projection import Rows

_FIRST, _FROM_NOTHING = 4, 0.01  # steps that begin with no terms at all: the first, and how often later


class Written:
    """A law as a skeleton: its text is a Python function with all constants written in, and calling it computes it."""

    def __init__(self, law: Law, names: Sequence[str]) -> None:
        self.law, self._names = law, names
        self._text = law.source(names)

    def __call__(self, *columns: Any) -> Any:
        return self.law.predict(np.array([np.asarray(column, dtype=np.float64) for column in columns]))

    def __str__(self) -> str:
        return self._text

    def rewritten(self, text: str) -> function.PyAstSkeleton:
        return function.PyAstSkeleton(text, {"np": np})


def law_of(fn: function.Function) -> Law | None:
    """Returns the law that a function of this engine holds; None for a function that somebody else wrote."""
    # Not from the skeleton: after a resume that is only a text, and both must give the same run.
    data = _note(fn).get("law")
    return law.from_data(data) if data else None


def _note(fn: function.Function) -> Mapping[str, Any]:
    return fn.candidate.meta if fn.candidate else {}


class LawEngine:
    """Varies a law of its parents in many ways and proposes the few that reach the front: a `function.Proposer`."""

    def __init__(self, searched: search.Search, names: Sequence[str]) -> None:
        self._search, self._names = searched, names

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        parents = [_parent(fn) for fn in task.parents]
        main, other = task.rng.choice(parents), task.rng.choice(parents)
        if task.step <= _FIRST or task.rng.random() < _FROM_NOTHING:
            main = search.Parent(Law((), ()))
        found = self._search.batch(main, other.law, _front(task), task.rng)
        return [self._child(task.parents[-1], each) for each in found]

    def _child(self, parent: function.Function, found: search.Parent) -> function.Function:
        shape = hashlib.blake2b(repr(law.shape_of(found.law.terms)).encode(), digest_size=8).hexdigest()
        return function.draft(
            parent,
            Written(found.law, self._names),
            engine="laws",
            law=found.law.to_data(),
            rung=found.rung,
            screened=found.screened,
            shape=shape,
        )


def _parent(fn: function.Function) -> search.Parent:
    known, note = law_of(fn), _note(fn)
    if known is None:
        return search.Parent(Law((), ()))
    error = fn.evaluation.metrics["nmse"] if fn.evaluation else math.inf
    return search.Parent(known, int(note.get("rung", 0)), error, float(note.get("screened", math.inf)))


def _front(task: function.Task) -> search.Front:
    found = [fn.evaluation.metrics for fn in task.others.get("front", ()) if fn.evaluation]
    return [(int(metrics["size"]), metrics["nmse"]) for metrics in found]


class LawJudge:
    """Scores a function on all rows: a law as it is, another text with the constants that fit it best.

    Args:
        rows: What a law should explain.
        names: The variables.
        data: The same rows, for texts.
    """

    def __init__(self, rows: Rows, names: Sequence[str], data: fit.Data) -> None:
        self._rows, self._names, self._data = rows, names, data

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        if isinstance(skeleton, Written):
            error = self._rows.error(self._rows.target - skeleton.law.predict(self._rows.columns))
            return _judged(error, skeleton.law.size)
        try:
            equation = fit.parse(str(skeleton), self._names)
        except (fit.Broken, fit.Unsupported) as refusal:
            return evaluation.failed(f"the equation cannot be read: {refusal}")
        fitted = fit.fit(equation.expression, self._data, rng=Random(0))
        if fitted.failure is not None:
            return evaluation.failed(fitted.failure)
        constants = {f"params[{index}]": value for index, value in enumerate(fitted.params)}
        return _judged(fitted.nmse, equation.expression.size, **constants)


def _judged(error: float, size: int, **constants: float) -> evaluation.Evaluation:
    if not math.isfinite(error):
        return evaluation.failed("its values are not finite on every row")
    score = pool.score_of(error)
    return evaluation.Evaluation(score, (score,), {"nmse": error, "size": float(size), **constants})
