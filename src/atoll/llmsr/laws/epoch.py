"""One epoch of the law search: a small evolution in one view, from laws that are known."""

import math
from collections.abc import Callable, Sequence
from random import Random

import numpy as np

from atoll.llmsr.laws import terms_fit, tree
from atoll.llmsr.laws import tree_moves as moves
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.tree_moves import Individual
from atoll.llmsr.laws.view_law import make_sample
from atoll.llmsr.laws.views import View

NUM_FITS = 120  # of one epoch
_SCREENING_ROWS = 200
_MAX_SIZE = 40
_MAX_TERMS = 6
_POPULATION = 200
_NUM_STARTS = 60
_NEAR_RATIO = 6.0  # of the error of the front, below which a structure is fitted with more steps
_SIZE_PENALTY = 0.03  # of log error, per node
_COEFFICIENT = 1.2345  # for a check of units: not a number that disappears in a product
MAX_CHILDREN = 24  # new laws of one epoch


class ViewSearch:
    """Searches laws in one view. Its only state is a cache.

    Args:
        view: The view.
        rows: The training rows.
        allows_units: Returns whether a law has consistent units; None if the user gave no units.
    """

    def __init__(self, view: View, rows: Rows, allows_units: Callable[[tree.Tree], bool] | None = None) -> None:
        self.view, self._allows_units = view, allows_units
        # Evenly along the target: random rows would miss the rare large values that make most of the variance.
        order = np.argsort(rows.target, kind="stable")
        count = min(len(rows), _SCREENING_ROWS)
        chosen = rows.select(order[np.linspace(0, len(rows) - 1, count).round().astype(np.intp)])
        self.screening = make_sample(view, chosen.columns, chosen.target, rows.variance)
        with np.errstate(all="ignore"):
            self.library = moves.Library(self.screening)
        self.num_fits = 0

    def run(self, known: Sequence[Individual], rng: Random, num_fits: int = NUM_FITS) -> list[Individual]:
        """Returns the population after an epoch from known laws."""
        with np.errstate(all="ignore"):
            return _Epoch(self, known, rng, num_fits).run()

    def allows(self, terms: moves.Terms) -> bool:
        """Returns whether a law of these terms has consistent units."""
        if self._allows_units is None:
            return True
        return self._allows_units(self.view.assemble(terms, [_COEFFICIENT] * (len(terms) + 1)))

    def fit_tree(self, law_tree: tree.Tree) -> Individual | None:
        """Returns a law as an individual; None if it is not finite on the screening rows."""
        terms = tree.normalize_terms([law_tree])
        with np.errstate(all="ignore"):
            fitted = terms_fit.fit_terms(terms, self.screening, 15, 1e-4) if terms else None
        if fitted is None:
            return None
        return Individual(fitted.error, compute_terms_size(fitted.terms), fitted.terms, fitted.coefficients)


class _Epoch:
    def __init__(self, search: ViewSearch, known: Sequence[Individual], rng: Random, num_fits: int) -> None:
        self._search, self._rng, self._num_fits = search, rng, num_fits
        self._mover = moves.Mover(search.screening, search.library, rng)
        self._population = list(known)
        self._front: dict[int, Individual] = {}
        self._known_shapes: set[tuple[str, ...]] = set()
        self._fits = 0
        for individual in known:
            self._update_front(individual)
            self._known_shapes.add(_get_key(individual.terms))

    def run(self) -> list[Individual]:
        while len(self._population) < _NUM_STARTS and self._fits < self._num_fits:
            self._consider(self._mover.make_random_terms(), -1)
        while self._fits < self._num_fits and self._population:
            before = self._fits
            parent = self._draw_parent()
            other = self._draw_by_tournament(3)
            for terms in self._mover.draw(parent, other):
                self._consider(terms, parent.origin)
            self._fits += self._fits == before  # a move without a new structure counts too, so that the epoch ends
        return sorted(self._population, key=compute_merit)

    def _draw_parent(self) -> Individual:
        if self._rng.random() < 0.35 and self._front:
            return self._rng.choice(list(self._front.values()))
        return self._draw_by_tournament(4)

    def _draw_by_tournament(self, count: int) -> Individual:
        return min(self._rng.sample(self._population, min(count, len(self._population))), key=compute_merit)

    def _consider(self, terms: moves.Terms, origin: int) -> None:
        terms = tree.normalize_terms(terms)
        size = compute_terms_size(terms)
        if not terms or size > _MAX_SIZE or len(terms) > _MAX_TERMS:
            return
        key = _get_key(terms)
        if key in self._known_shapes:
            return
        self._known_shapes.add(key)
        if not self._search.allows(terms):
            return
        self._fits += 1
        self._search.num_fits += 1
        fit = terms_fit.fit_terms(terms, self._search.screening, 3, 1e-2)
        if fit is None:
            return
        rival = self._get_front_error(size)
        if fit.error < _NEAR_RATIO * rival:
            fit = terms_fit.fit_terms(fit.terms, self._search.screening, 15, 1e-4) or fit
        individual = Individual(fit.error, size, fit.terms, fit.coefficients, origin)
        self._update_front(individual)
        self._insert(individual)

    def _get_front_error(self, size: int) -> float:
        return min((other.error for key, other in self._front.items() if key <= size), default=math.inf)

    def _update_front(self, individual: Individual) -> None:
        if individual.error < 0.999 * self._get_front_error(individual.size):
            self._front[individual.size] = individual
            for size in [size for size in self._front if size > individual.size]:
                if self._front[size].error >= individual.error:
                    del self._front[size]

    def _insert(self, individual: Individual) -> None:
        if len(self._population) < _POPULATION:
            self._population.append(individual)
            return
        drawn = self._rng.sample(range(len(self._population)), 4)
        worst = max(drawn, key=lambda index: compute_merit(self._population[index]))
        is_better = compute_merit(individual) <= compute_merit(self._population[worst])
        if is_better or self._rng.random() < 0.02:
            self._population[worst] = individual


def _get_key(terms: moves.Terms) -> tuple[str, ...]:
    return tuple(tree.get_shape(term) for term in terms)


def compute_terms_size(terms: moves.Terms) -> int:
    """Returns the nodes of terms, with a coefficient and a sum for each."""
    return sum(tree.compute_size(term) + 3 for term in terms)


def compute_merit(individual: Individual) -> float:
    """Returns the log error with a penalty for size; lower is better."""
    return math.log(max(individual.error, 1e-28)) + _SIZE_PENALTY * individual.size


def select_new(individuals: Sequence[Individual], known: Sequence[Individual], max_per_size: int) -> list[Individual]:
    """Returns the best new individuals, at most `MAX_CHILDREN`, of the best few of every size.

    The laws of the front come too: of that of all, and of that of sums without inner constants, which fit less noise.
    """
    known_terms = {individual.terms for individual in known}
    linear = [item for item in individuals if not any(map(tree.has_constant, item.terms))]
    front = _find_front(individuals) | _find_front(linear)
    new: list[Individual] = []
    counts: dict[int, int] = {}
    for individual in sorted(individuals, key=lambda item: item.error):
        counts[individual.size] = counts.get(individual.size, 0) + 1
        is_good = counts[individual.size] <= max_per_size or id(individual) in front
        if is_good and individual.terms not in known_terms:
            new.append(individual)
    ranked = sorted(new, key=compute_merit)
    return ranked[:MAX_CHILDREN] + [item for item in ranked[MAX_CHILDREN:] if id(item) in front]


def _find_front(individuals: Sequence[Individual]) -> set[int]:
    """Returns the ids of the individuals that no smaller one beats."""
    front: set[int] = set()
    least_error = math.inf
    for individual in sorted(individuals, key=lambda item: (item.size, item.error)):
        if individual.error < least_error:
            least_error = individual.error
            front.add(id(individual))
    return front
