"""Requirements of the user on a law: units, monotonicity, symmetry, bounds, no poles.

Units are checked in the tree; a fitted constant may have any unit. The rest is checked at points in the ranges of the
data, with a margin on both sides.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from atoll import errors
from atoll.llmsr import fit
from atoll.llmsr.laws import table, tree
from atoll.llmsr.laws.tree import Array, Tree
from atoll.llmsr.laws.view_law import AnyLaw, TreeLaw

_NUM_POINTS = 256
_NUM_SWEEPS, _SWEEP_POINTS = 48, 13
_TOLERANCE = 0.02  # of the deviation of the target: fitted constants are not exact
_POLE_MARGIN = 1.0  # widths of the data beyond both ends in which there must be no pole

type Units = Mapping[str, float]  # exponent of each base unit
type Direction = Literal["increasing", "decreasing"]

# Derived units of the SI in base units.
_DERIVED: Mapping[str, str] = {
    "N": "kg*m/s^2", "Pa": "kg/m/s^2", "J": "kg*m^2/s^2", "W": "kg*m^2/s^3", "Hz": "s^-1", "C": "A*s",
    "V": "kg*m^2/s^3/A", "F": "A^2*s^4/kg/m^2", "ohm": "kg*m^2/s^3/A^2", "S": "A^2*s^3/kg/m^2",
    "Wb": "kg*m^2/s^2/A", "T": "kg/s^2/A", "H": "kg*m^2/s^2/A^2", "L": "m^3", "rad": "", "sr": "", "%": "",
}  # fmt: skip
_FACTOR = re.compile(r"\s*([*/·]?)\s*(?:([^\W\d_]+|%)(?:(?:\^|\*\*)?(-?\d+(?:\.\d+)?))?|1)\s*")


def parse_units(text: str) -> Units:
    """Returns the exponents of the base units of a text such as "kg*m/s^2"; a text without units or "1" has none.

    Raises:
        SetupError: The text is not a product of units.
    """
    units: dict[str, float] = {}
    position = 0
    while position < len(text.strip()):
        match = _FACTOR.match(text.strip(), position)
        if match is None or match.end() == position:
            raise errors.SetupError(f"{text!r:.60} is not a unit. Write products and powers, such as kg*m/s^2.")
        operator, name, power = match.groups()
        exponent = float(power or 1.0) * (-1.0 if operator == "/" else 1.0)
        parts = {} if name is None else parse_units(_DERIVED[name]) if name in _DERIVED else {name: 1.0}
        for part, value in parts.items():
            units[part] = units.get(part, 0.0) + exponent * value
        position = match.end()
    return {name: value for name, value in units.items() if value}


class InconsistentUnits(Exception):
    """Sum of different units, or function of a unit."""


_ANY = None  # unit of a constant, or of a product with one
_SAME_UNIT = ("abs", "neg")
_POWERS = {"square": 2.0, "sqrt": 0.5, "reciprocal": -1.0}


def infer_units(law_tree: Tree, variables: Sequence[Units | None]) -> Units | None:
    """Returns the units of a tree; None if a constant can give it any.

    Raises:
        InconsistentUnits: The tree has no consistent units.
    """
    op = law_tree[0]
    if op in tree.LEAVES:
        return variables[law_tree[1]] if op == "x" else _ANY
    arguments = [infer_units(argument, variables) for argument in law_tree[1:]]
    first = arguments[0]
    if op in ("+", "-"):
        return _unify(first, arguments[1])
    if op in ("*", "/"):
        if first is _ANY or arguments[1] is _ANY:
            return _ANY
        return _multiply(first, arguments[1], 1.0 if op == "*" else -1.0)
    if op in _SAME_UNIT:
        return first
    if op in _POWERS or (op == "**" and law_tree[2][0] == "c"):
        power = _POWERS[op] if op in _POWERS else law_tree[2][1]
        return _ANY if first is _ANY else {name: power * value for name, value in first.items()}
    for argument in arguments:
        _unify(argument, {})
    return {}


def _unify(first: Units | None, second: Units | None) -> Units | None:
    if first is _ANY or second is _ANY:
        return second if first is _ANY else first
    if any(abs(value) > 1e-9 for value in _multiply(first, second, -1.0).values()):
        raise InconsistentUnits
    return first


def _multiply(first: Units, second: Units, power: float) -> Units:
    names = {*first, *second}
    return {name: first.get(name, 0.0) + power * second.get(name, 0.0) for name in names}


@dataclass(frozen=True, slots=True)
class Requirements:
    """Requirements on a law, by the names of the columns.

    Attributes:
        units: Units of the variables and the target, such as {"m": "kg"}. Columns without units may have any.
        monotonic: "increasing" or "decreasing" by variable.
        symmetric: Groups of variables. A law keeps its value if two variables of a group are exchanged, or if the only
            variable of a group changes its sign.
        minimum: Smallest value of the law.
        maximum: Largest value of the law.
        poles: Whether a law may have poles outside of the data.
        margin: Width of the data beyond both ends in which these hold, as a share of the range.
    """

    units: Mapping[str, str] = field(default_factory=dict)
    monotonic: Mapping[str, Direction] = field(default_factory=dict)
    symmetric: Sequence[Sequence[str]] = ()
    minimum: float | None = None
    maximum: float | None = None
    poles: bool = True
    margin: float = 0.2

    @property
    def is_empty(self) -> bool:
        return self == Requirements(margin=self.margin)


class Constraints:
    """Checks laws against requirements.

    Raises:
        SetupError: A requirement names a column that does not exist, or has an unknown unit or direction.
    """

    def __init__(self, requirements: Requirements, train: table.Table) -> None:
        self._requirements, self._names = requirements, list(train.names)
        known = [*train.names, train.target]
        for name in [*requirements.units, *requirements.monotonic, *(n for g in requirements.symmetric for n in g)]:
            if name not in known:
                raise errors.SetupError(
                    f"Column {name!r:.60} is required to fit, but there are only {', '.join(known)}."
                )
        for name, direction in requirements.monotonic.items():
            if direction not in ("increasing", "decreasing"):
                raise errors.SetupError(f"monotonic {name} is {direction!r:.40}. Use 'increasing' or 'decreasing'.")
        units = {name: parse_units(text) for name, text in requirements.units.items()}
        self.units = [units.get(name) for name in train.names]
        self._target_units = units.get(train.target)
        self._scale = float(train.y.std()) or 1.0
        low, high = train.x.min(axis=0), train.x.max(axis=0)
        self._points = _draw_points(low, high, requirements.margin)
        self._far_points = _draw_points(low, high, _POLE_MARGIN)

    @property
    def has_units(self) -> bool:
        return bool(self._requirements.units)

    def allows_units(self, law_tree: Tree) -> bool:
        """Returns whether a law has consistent units."""
        try:
            _unify(infer_units(law_tree, self.units), self._target_units)
        except InconsistentUnits:
            return False
        return True

    def has_consistent_units(self, part: Tree) -> bool:
        """Returns whether a part of a law has consistent units."""
        try:
            infer_units(part, self.units)
        except InconsistentUnits:
            return False
        return True

    def find_violation(self, law: AnyLaw) -> str:
        """Returns the requirement that a law does not fulfill; empty if it fulfills all."""
        if self._requirements.is_empty:
            return ""
        law_tree = to_tree(law, len(self._names))
        if law_tree is None:
            return ""
        if self._requirements.units and not self.allows_units(law_tree):
            return "its units are not consistent"
        with np.errstate(all="ignore"):
            return self._find_numeric_violation(law, law_tree)

    def _find_numeric_violation(self, law: AnyLaw, law_tree: Tree) -> str:
        requirements, points, tolerance = self._requirements, self._points, _TOLERANCE * self._scale
        values = law.predict(points)
        if requirements.minimum is not None and values.min() < requirements.minimum - 1e-9 * self._scale:
            return f"it falls below {requirements.minimum:g}"
        if requirements.maximum is not None and values.max() > requirements.maximum + 1e-9 * self._scale:
            return f"it rises above {requirements.maximum:g}"
        for group in requirements.symmetric:
            for changed in self._iter_changes(group, points):
                if np.abs(law.predict(changed) - values).max() > tolerance:
                    return f"it is not symmetric in {', '.join(group)}"
        for name, direction in requirements.monotonic.items():
            steps = np.diff(self._sweep(law, self._names.index(name)), axis=1)
            if (steps * (1.0 if direction == "increasing" else -1.0)).min() < -1e-6 * self._scale:
                return f"it is not {direction} in {name}"
        if not requirements.poles and has_pole(law_tree, self._far_points):
            return "it has a pole"
        return ""

    def _iter_changes(self, group: Sequence[str], points: Array) -> list[Array]:
        indices = [self._names.index(name) for name in group]
        changed_points = []
        if len(indices) == 1:
            changed = points.copy()
            changed[indices[0]] *= -1.0
            return [changed]
        for first, second in itertools.pairwise(indices):
            changed = points.copy()
            changed[[first, second]] = points[[second, first]]
            changed_points.append(changed)
        return changed_points

    def _sweep(self, law: AnyLaw, index: int) -> Array:
        """Returns the values along one variable, from several points: sweeps by values."""
        starts = self._points[:, :_NUM_SWEEPS]
        grid = np.linspace(self._points[index].min(), self._points[index].max(), _SWEEP_POINTS)
        points = np.repeat(starts, _SWEEP_POINTS, axis=1)
        points[index] = np.tile(grid, starts.shape[1])
        return law.predict(points).reshape(starts.shape[1], _SWEEP_POINTS)


def _draw_points(low: Array, high: Array, margin: float) -> Array:
    """Returns points in ranges that are wider than the data. Positive variables stay positive."""
    width = margin * (high - low)
    below, above = low - width, high + width
    below = np.where(low >= 0.0, np.maximum(below, 0.1 * low), below)
    above = np.where(high <= 0.0, np.minimum(above, 0.1 * high), above)
    shares = np.random.default_rng(0).random((_NUM_POINTS, len(low)))
    shares[: 2 * len(low)] = shares[: 2 * len(low)].round()  # some corners
    return np.ascontiguousarray((below + shares * (above - below)).T)


def has_pole(law_tree: Tree, points: Array) -> bool:
    """Returns whether a denominator or the argument of a logarithm changes its sign between points."""
    for _, node in tree.iter_nodes(law_tree):
        denominator = node[2] if node[0] == "/" else node[1] if node[0] in ("reciprocal", "log") else None
        if node[0] == "**" and node[2][0] == "c" and node[2][1] < 0.0:
            denominator = node[1]
        if denominator is None or denominator[0] == "c":
            continue
        values = np.asarray(tree.evaluate(denominator, points))
        if not np.isfinite(values).all() or values.min() <= 0.0 <= values.max():
            return True
    return False


def to_tree(law: AnyLaw, num_variables: int) -> Tree | None:
    """Returns a law as a tree; None if it cannot be one."""
    if isinstance(law, TreeLaw):
        return law.tree
    names = [f"x{index}" for index in range(num_variables)]
    return tree.from_expression(fit.parse(law.to_text(names), names).expression)
