"""Law: a sum of terms, each a coefficient times a product of factors; a factor is a function of one variable."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from atoll.candidate import JSON

type Array = npt.NDArray[np.float64]
type Columns = Array  # variables by row, data points by column, so that the input of a factor is contiguous
type Shape = tuple[str, tuple[int, ...], float, bool, int]

WITHOUT_CONSTANTS = ("pow", "ln")  # factors without constants
ABSOLUTE = 0.0  # inner power that means |z|
_MAX_EXPONENT = 700.0  # exp of more would be infinite


class Factor(NamedTuple):
    """One factor and its constants.

    Attributes:
        fn: Name of the function in the table above.
        variables: Indices of the variables whose product is its input.
        power: Power of the variable (`pow`) or inside the function; 0 for the absolute value.
        is_shifted: Whether it has a constant m.
        outer: Power of the value, 1 or 2.
        theta: Its constants: (), (k), (k, m), or (m) for `abs`.
    """

    fn: str
    variables: tuple[int, ...]
    power: float = 1.0
    is_shifted: bool = False
    outer: int = 1
    theta: tuple[float, ...] = ()

    @property
    def shape(self) -> Shape:
        """Everything except its constants."""
        return self[:5]

    @property
    def shift(self) -> float:
        """Value at which its argument is 0."""
        return self.theta[-1] if self.is_shifted or self.fn == "abs" else 0.0

    @property
    def size(self) -> int:
        """Number of nodes of its tree."""
        if self.fn == "pow":
            return 1 if self.power == 1 else 3
        if self.fn in ("ln", "abs"):
            return 2 if self.fn == "ln" else 4
        inner = {1.0: 0, ABSOLUTE: 1}.get(self.power, 2)
        extra = 2 * self.is_shifted + 2 * (self.fn in ("rec", "log")) + 2 * (self.outer == 2)
        return 3 + 2 * len(self.variables) - 1 + inner + extra

    def to_text(self, names: Sequence[str]) -> str:
        """Returns it as Python source with numpy."""
        product = "*".join(names[variable] for variable in self.variables)
        if self.fn == "pow":
            return _format_power(product, self.power)
        if self.fn == "ln":
            return f"np.log(np.abs({product}))"
        argument = f"({product} - {self.shift!r})" if self.is_shifted or self.fn == "abs" else product
        if self.fn == "abs":
            return f"np.abs{argument}"
        if self.power == ABSOLUTE:
            argument = f"np.abs({argument.strip('()')})"
        elif self.power != 1:
            argument = f"{argument if self.is_shifted or len(self.variables) == 1 else f'({argument})'}**{self.power:g}"
        return _format_call(self.fn, f"{self.theta[0]!r}*{argument}") + ("**2" if self.outer == 2 else "")


def _format_power(name: str, power: float) -> str:
    if power == 0.5:
        return f"np.sqrt(np.abs({name}))"
    return name if power == 1 else f"{name}**{power:g}" if power > 0 else f"(1/{name}{'**2' if power == -2 else ''})"


def _format_call(fn: str, argument: str) -> str:
    if fn == "rec":
        return f"(1/(1 + {argument}))"
    return f"np.log(1 + np.abs({argument}))" if fn == "log" else f"np.{fn}({argument})"


def raise_to_power(values: Array, power: float) -> Array:
    """Raises to a power by products, because ** of numpy is 70 times slower for cubes."""
    square = values * values if abs(power) >= 2 else values
    if power in (1.0, ABSOLUTE):
        return values if power else np.abs(values)
    if power in (2.0, 3.0, 4.0):
        return square if power == 2 else square * (values if power == 3 else square)
    if power == 0.5:
        return np.sqrt(np.abs(values))
    return 1.0 / (square if power == -2 else values)


def _compute_power_slope(values: Array, power: float) -> Array | float:
    if power == 1.0:
        return 1.0
    return np.sign(values) if power == ABSOLUTE else power * raise_to_power(values, power - 1.0)


def compute_argument(factor: Factor, columns: Columns) -> Array:
    """Returns the input of a factor before the shift: a product of variables."""
    values: Array = columns[factor.variables[0]]
    for variable in factor.variables[1:]:
        values = values * columns[variable]
    return values


def compute_values(factor: Factor, columns: Columns) -> Array:
    """Returns the values of a factor at every data point."""
    return evaluate(factor, factor.theta, compute_argument(factor, columns), with_slopes=False)[0]


def evaluate(
    factor: Factor, theta: Sequence[float], argument: Array, *, with_slopes: bool = True
) -> tuple[Array, list[Array]]:
    """Returns the values of a factor at every data point, and its derivative by each constant.

    Args:
        factor: The factor.
        theta: Constants to use instead of its own.
        argument: Its input, from `compute_argument`.
        with_slopes: Whether to compute derivatives.
    """
    if factor.fn == "pow":
        return raise_to_power(argument, factor.power), []
    if factor.fn == "ln":
        return np.log(np.abs(argument)), []
    if factor.fn == "abs":
        shifted = argument - theta[0]
        return np.abs(shifted), [-np.sign(shifted)] if with_slopes else []
    scale, shifted = theta[0], (argument - theta[1] if factor.is_shifted else argument)
    powered = raise_to_power(shifted, factor.power)
    value, slope = _evaluate_function(factor.fn, scale * powered, with_slope=with_slopes)
    if factor.outer == 2:
        value, slope = value * value, 2.0 * value * slope
    if not with_slopes:
        return value, []
    if not factor.is_shifted:
        return value, [slope * powered]
    return value, [slope * powered, (-scale * slope) * _compute_power_slope(shifted, factor.power)]


def _evaluate_function(fn: str, argument: Array, *, with_slope: bool) -> tuple[Array, Array]:
    """Returns the values of a function and its slopes. Without `with_slope`, the slopes may be meaningless."""
    if fn == "exp":
        value = np.exp(np.minimum(argument, _MAX_EXPONENT))
        return value, value
    if fn in ("sin", "cos"):
        value = np.sin(argument) if fn == "sin" else np.cos(argument)
        if not with_slope:
            return value, value
        return value, (np.cos(argument) if fn == "sin" else -np.sin(argument))
    if fn == "tanh":
        value = np.tanh(argument)
        return value, 1.0 - value * value
    if fn == "rec":
        value = 1.0 / (1.0 + argument)
        return value, -value * value
    distance = np.abs(argument)
    return np.log1p(distance), np.sign(argument) / (1.0 + distance)


type Term = tuple[Factor, ...]
type Terms = tuple[Term, ...]

MAX_POWER = 4.0


class Law(NamedTuple):
    """Terms and their coefficients. Without terms it is the law 0."""

    terms: Terms
    coefficients: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of nodes of its tree: operators, functions, variables and constants."""
        return compute_size(self.terms)

    def predict(self, columns: Columns) -> Array:
        """Returns the values at every data point. They are finite, even far outside of the domain."""
        with np.errstate(all="ignore"):
            weights = np.array(self.coefficients)
            return np.nan_to_num(
                weights @ build_design_matrix(self.terms, columns) if self.terms else np.zeros(columns.shape[1])
            )

    def to_text(self, names: Sequence[str]) -> str:
        """Returns it as a Python expression with numpy, with exact constants."""
        return " ".join(self._format_terms(names))

    def to_source(self, names: Sequence[str], name: str = "equation") -> str:
        """Returns it as a Python function of its variables, with one term per line."""
        body = "\n        ".join(self._format_terms(names))
        return f"def {name}({', '.join(names)}):\n    return (\n        {body}\n    )\n"

    def _format_terms(self, names: Sequence[str]) -> list[str]:
        parts: list[str] = []
        for value, term in zip(self.coefficients, self.terms, strict=True):
            sign = ("- " if value < 0 else "+ ") if parts else ("-" if value < 0 else "")
            parts.append(sign + "*".join([repr(abs(value)), *(factor.to_text(names) for factor in term)]))
        return parts or ["0.0"]

    def to_data(self) -> Mapping[str, JSON]:
        """Returns it as plain data."""
        return {"terms": [[list(factor) for factor in term] for term in self.terms], "weights": list(self.coefficients)}


def from_data(data: Mapping[str, Any]) -> Law:
    """Returns the law from the data of `Law.to_data`."""
    terms = tuple(
        tuple(
            Factor(fn, tuple(variables), power, is_shifted, outer, tuple(theta))
            for fn, variables, power, is_shifted, outer, theta in term
        )
        for term in data["terms"]
    )
    return Law(terms, tuple(data["weights"]))


def compute_size(terms: Terms) -> int:
    """Returns the number of nodes of a sum of terms."""
    return max(1, sum(2 + sum(factor.size + 1 for factor in term) for term in terms) - 1)


def get_shape(terms: Terms) -> tuple[tuple[str, ...], ...]:
    """Returns the structure of a sum without constants and order."""
    return tuple(sorted(get_term_shape(term) for term in terms))


def get_term_shape(term: Term) -> tuple[str, ...]:
    """Returns the structure of a term without constants and order."""
    return tuple(sorted(repr(factor.shape) for factor in term))


def merge_terms(terms: Iterable[Term]) -> Terms:
    """Returns a sum in normal form: joined powers of one variable, no equal terms."""
    merged_terms = [_merge_powers(term) for term in terms]
    return tuple({repr(term): term for term in merged_terms}.values())


def _merge_powers(term: Term) -> Term:
    powers: dict[int, float] = {}
    factors: list[Factor] = []
    for factor in term:
        if factor.fn == "pow" and factor.power >= 1:
            powers[factor.variables[0]] = powers.get(factor.variables[0], 0.0) + factor.power
        else:
            factors.append(factor)
    factors += [Factor("pow", (variable,), min(power, MAX_POWER)) for variable, power in powers.items()]
    return tuple(sorted(factors, key=lambda factor: repr(factor.shape)))


def compute_term_values(term: Term, columns: Columns) -> Array:
    """Returns the values of a term without its coefficient at every data point."""
    product = np.ones(columns.shape[1])
    for factor in term:
        product = product * compute_values(factor, columns)
    return product


def build_design_matrix(terms: Terms, columns: Columns) -> Array:
    """Returns the values of the terms without coefficients, one term per row."""
    return np.array([compute_term_values(term, columns) for term in terms])


def collect_theta(terms: Terms) -> Array:
    """Returns all constants inside the factors, in order."""
    return np.array([value for term in terms for factor in term for value in factor.theta])


def with_theta(terms: Terms, theta: Array) -> Terms:
    """Returns the same terms with other constants inside their factors."""
    values = iter(theta.tolist())
    return tuple(
        tuple(
            factor._replace(theta=tuple(next(values) for _ in factor.theta)) if factor.theta else factor
            for factor in term
        )
        for term in terms
    )
