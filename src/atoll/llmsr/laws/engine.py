"""Laws as candidates: skeleton, mutators and evaluator."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from atoll import evaluation, function
from atoll.llmsr import fit
from atoll.llmsr.laws import epoch, law, population, search, tree, view_law, views
from atoll.llmsr.laws.constraints import Constraints
from atoll.llmsr.laws.law import Law
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.tree_moves import Individual
from atoll.llmsr.laws.view_law import AnyLaw, TreeLaw, ViewLaw

_NUM_EMPTY_STARTS, _EMPTY_START_PROBABILITY = 4, 0.01  # iterations that start without terms: the first, and later ones


class LawSkeleton:
    """Law as a skeleton. Its text is a Python function with all constants."""

    def __init__(self, law: AnyLaw, names: Sequence[str]) -> None:
        self.law, self._names = law, names
        self._text = law.to_source(names)

    def __call__(self, *columns: Any) -> Any:
        return self.law.predict(np.array([np.asarray(column, dtype=np.float64) for column in columns]))

    def __str__(self) -> str:
        return self._text

    def with_text(self, text: str) -> function.PyAstSkeleton:
        return function.PyAstSkeleton(text, {"np": np})


def get_law(fn: function.Function) -> Law | ViewLaw | None:
    """Returns the law of a function; None if another proposer made it."""
    # Not from the skeleton: a resumed run has only its text, and must give the same results.
    data = _get_meta(fn).get("law")
    return view_law.from_data(data) if data else None


def get_any_law(fn: function.Function, names: Sequence[str]) -> Law | TreeLaw | None:
    """Returns the law of a function, also of a fitted formula of an LLM; None if it has none."""
    known_law = get_law(fn)
    if known_law is not None or fn.evaluation is None or fn.evaluation.failure is not None:
        return known_law
    try:
        expression = fit.parse(str(fn.skeleton()), names).expression
    except (fit.InvalidEquation, fit.UnsupportedEquation):
        return None
    metrics = fn.evaluation.metrics
    constants = [metrics[f"params[{index}]"] for index in range(sum(name.startswith("params[") for name in metrics))]
    law_tree = tree.from_expression(expression, constants)
    return None if law_tree is None else TreeLaw(tree.simplify(law_tree))


def _get_meta(fn: function.Function) -> Mapping[str, Any]:
    return fn.candidate.meta if fn.candidate else {}


class LawMutator:
    """Varies laws with the search that the population chose: sums of products, or trees in a view of the data."""

    def __init__(
        self,
        rows: Rows,
        law_search: search.Search,
        names: Sequence[str],
        data_views: Sequence[views.View],
        limits: Constraints | None = None,
    ) -> None:
        self._rows, self._search, self._names, self._limits = rows, law_search, names, limits
        self._data_views = data_views
        self._views: dict[int, epoch.ViewSearch] = {}  # made when they are needed
        self._individuals: dict[str, Individual] = {}  # cache, by id

    @property
    def num_fits(self) -> int:
        """Number of fitted structures."""
        return self._search.num_fits + sum(view_search.num_fits for view_search in self._views.values())

    def _get_view(self, index: int) -> epoch.ViewSearch:
        if index not in self._views:
            allows_units = self._limits.allows_units if self._limits is not None and self._limits.has_units else None
            self._views[index] = epoch.ViewSearch(self._data_views[index], self._rows, allows_units)
        return self._views[index]

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        for role, fns in context.inspirations.items():
            if role.startswith(population.VIEW_ROLE):
                return self._search_view(int(role.removeprefix(population.VIEW_ROLE)), fns, context)
        return self._search_products(context)

    def _search_products(self, context: function.ProposalContext) -> Sequence[function.Function]:
        parents = [_to_screened_law(fn) for fn in context.parents]
        main, other = context.rng.choice(parents), context.rng.choice(parents)
        if context.iteration <= _NUM_EMPTY_STARTS or context.rng.random() < _EMPTY_START_PROBABILITY:
            main = search.ScreenedLaw(Law((), ()))
        children = self._search.search_batch(main, other.law, _get_front(context), context.rng)
        return [self._make_product_child(context.parents[-1], child) for child in children if self._accepts(child.law)]

    def _accepts(self, law: AnyLaw) -> bool:
        return self._limits is None or not self._limits.find_violation(law)

    def _make_product_child(self, parent: function.Function, child: search.ScreenedLaw) -> function.Function:
        return function.derive_child(
            parent,
            LawSkeleton(child.law, self._names),
            engine="laws",
            law=child.law.to_data(),
            rung=child.rung,
            screened=child.screened_error,
            shape=_hash(repr(law.get_shape(child.law.terms))),
        )

    def _search_view(
        self, index: int, pool: Sequence[function.Function], context: function.ProposalContext
    ) -> Sequence[function.Function]:
        view_search = self._get_view(index)
        known = [self._get_individual(fn, origin) for origin, fn in enumerate(pool)]
        if view_search.view.is_plain:
            known += [
                individual
                for fn in context.inspirations.get("front", ())
                if get_law(fn) is None and (individual := self._fit_formula(fn, view_search)) is not None
            ]
        individuals = view_search.run(known, context.rng)
        new = epoch.select_new(individuals, known, population.MAX_PER_SIZE)
        front = _get_front(context)
        children = (self._make_view_child(individual, index, pool, front, context) for individual in new)
        return [child for child in children if child is not None]

    def _get_individual(self, fn: function.Function, origin: int) -> Individual:
        identifier = fn.candidate.id if fn.candidate else ""
        individual = self._individuals.get(identifier)
        if individual is None:
            known_law = get_law(fn)
            assert isinstance(known_law, ViewLaw)
            error = float(_get_meta(fn).get("screened", math.inf))
            size = epoch.compute_terms_size(known_law.terms)
            individual = Individual(error, size, known_law.terms, known_law.coefficients)
            self._individuals[identifier] = individual
        return individual._replace(origin=origin)

    def _fit_formula(self, fn: function.Function, view_search: epoch.ViewSearch) -> Individual | None:
        """Returns a formula of an LLM as an individual of a view with the original variables."""
        known_law = get_any_law(fn, self._names)
        return view_search.fit_tree(known_law.tree) if isinstance(known_law, TreeLaw) else None

    def _make_view_child(
        self,
        individual: Individual,
        index: int,
        pool: Sequence[function.Function],
        front: search.Front,
        context: function.ProposalContext,
    ) -> function.Function | None:
        parent = pool[individual.origin] if individual.origin >= 0 else context.parents[-1]
        new_law: AnyLaw = ViewLaw(self._data_views[index], individual.terms, individual.coefficients)
        if search.is_near_front(new_law.size, individual.error, front):
            refitted = view_law.refit(new_law, self._rows, steps=3, tolerance=1e-3)
            new_law = new_law if refitted is None else refitted.law
        assert isinstance(new_law, ViewLaw)
        if not self._accepts(new_law):
            return None
        return function.derive_child(
            parent,
            LawSkeleton(new_law, self._names),
            engine="laws",
            law=new_law.to_data(),
            view=index,
            screened=individual.error,
            shape=_hash(f"{index} {new_law.shape}"),
        )


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _to_screened_law(fn: function.Function) -> search.ScreenedLaw:
    known_law, meta = get_law(fn), _get_meta(fn)
    if not isinstance(known_law, Law):
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
        limits: Requirements on equations. Laws of the search are checked before.
    """

    def __init__(self, rows: Rows, names: Sequence[str], data: fit.Data, limits: Constraints | None = None) -> None:
        self._rows, self._names, self._data, self._limits = rows, names, data, limits

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> evaluation.Evaluation:
        if isinstance(skeleton, LawSkeleton):
            error = self._rows.error(self._rows.target - skeleton.law.predict(self._rows.columns))
            return make_evaluation(error, skeleton.law.size)
        try:
            equation = fit.parse(str(skeleton), self._names)
        except (fit.InvalidEquation, fit.UnsupportedEquation) as parse_error:
            return evaluation.failed(f"the equation cannot be parsed: {parse_error}")
        fitted = fit.fit(equation.expression, self._data, rng=Random(0))
        if fitted.failure is not None:
            return evaluation.failed(fitted.failure)
        law_tree = tree.from_expression(equation.expression, fitted.params)
        if self._limits is not None and law_tree is not None:
            violation = self._limits.find_violation(TreeLaw(law_tree))
            if violation:
                return evaluation.failed(violation)
        constants = {f"params[{index}]": value for index, value in enumerate(fitted.params)}
        return make_evaluation(fitted.nmse, equation.expression.size, **constants)


def make_evaluation(error: float, size: int, **constants: float) -> evaluation.Evaluation:
    """Returns the evaluation of a law with an error (NMSE); a failure if it is not finite."""
    if not math.isfinite(error):
        return evaluation.failed("its values are not finite on every row")
    score = population.compute_score(error)
    return evaluation.Evaluation(score, (score,), {"nmse": error, "size": float(size), **constants})
