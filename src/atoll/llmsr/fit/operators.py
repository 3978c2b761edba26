"""What an expression can do to numbers: each operation with its derivative and how Python writes it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Values are arrays over the rows, or plain numbers where no column is involved; both behave alike under numpy.
type Value = Any
# (what flows back into the result, the argument, the result) -> what flows back into the argument
type Pull = Callable[[Value, Value, Value], Value]
# The same of two arguments: (flow, left, right, result).
type Pull2 = Callable[[Value, Value, Value, Value], Value]


@dataclass(frozen=True, slots=True)
class UnaryOperator:
    """One argument.

    Attributes:
        apply: The numpy function.
        pull: Its derivative, times what flows back; None where it is flat.
        text: How Python writes it, with `{}` for the argument.
    """

    apply: Callable[[Value], Value]
    pull: Pull | None
    text: str


@dataclass(frozen=True, slots=True)
class BinaryOperator:
    """Two arguments; `pull_left` and `pull_right` are the derivatives by each."""

    apply: Callable[[Value, Value], Value]
    pull_left: Pull2 | None
    pull_right: Pull2 | None
    text: str


def _unary(name: str, pull: Pull | None, text: str | None = None) -> UnaryOperator:
    return UnaryOperator(getattr(np, name), pull, text or f"np.{name}({{}})")


UNARY: Mapping[str, UnaryOperator] = {
    "neg": _unary("negative", lambda g, x, out: -g, "(-{})"),
    "reciprocal": _unary("reciprocal", lambda g, x, out: -g * out * out, "(1.0 / {})"),
    "square": _unary("square", lambda g, x, out: 2.0 * g * x, "{}**2"),
    "sqrt": _unary("sqrt", lambda g, x, out: 0.5 * g / out),
    "cbrt": _unary("cbrt", lambda g, x, out: g / (3.0 * out * out)),
    "abs": _unary("abs", lambda g, x, out: g * np.sign(x)),
    "sign": _unary("sign", None),
    "floor": _unary("floor", None),
    "ceil": _unary("ceil", None),
    "exp": _unary("exp", lambda g, x, out: g * out),
    "exp2": _unary("exp2", lambda g, x, out: g * out * np.log(2.0)),
    "expm1": _unary("expm1", lambda g, x, out: g * (out + 1.0)),
    "log": _unary("log", lambda g, x, out: g / x),
    "log2": _unary("log2", lambda g, x, out: g / (x * np.log(2.0))),
    "log10": _unary("log10", lambda g, x, out: g / (x * np.log(10.0))),
    "log1p": _unary("log1p", lambda g, x, out: g / (1.0 + x)),
    "sin": _unary("sin", lambda g, x, out: g * np.cos(x)),
    "cos": _unary("cos", lambda g, x, out: -g * np.sin(x)),
    "tan": _unary("tan", lambda g, x, out: g * (1.0 + out * out)),
    "sinh": _unary("sinh", lambda g, x, out: g * np.cosh(x)),
    "cosh": _unary("cosh", lambda g, x, out: g * np.sinh(x)),
    "tanh": _unary("tanh", lambda g, x, out: g * (1.0 - out * out)),
    "arcsin": _unary("arcsin", lambda g, x, out: g / np.sqrt(1.0 - x * x)),
    "arccos": _unary("arccos", lambda g, x, out: -g / np.sqrt(1.0 - x * x)),
    "arctan": _unary("arctan", lambda g, x, out: g / (1.0 + x * x)),
    "arcsinh": _unary("arcsinh", lambda g, x, out: g / np.sqrt(1.0 + x * x)),
    "arccosh": _unary("arccosh", lambda g, x, out: g / np.sqrt(x * x - 1.0)),
    "arctanh": _unary("arctanh", lambda g, x, out: g / (1.0 - x * x)),
}


def _pull_exponent(g: Value, x: Value, y: Value, out: Value) -> Value:
    """Returns what flows into an exponent; a base of zero stays zero whatever the exponent."""
    return g * np.where(out == 0.0, 0.0, out * np.log(np.where(x == 0.0, 1.0, x)))


def _comparison(compare: Callable[[Value, Value], Value], text: str) -> BinaryOperator:
    """Returns 1 or 0 as numbers, because numpy does not calculate with truth."""
    return BinaryOperator(lambda x, y: compare(x, y) * 1.0, None, None, text)


BINARY: Mapping[str, BinaryOperator] = {
    "+": BinaryOperator(np.add, lambda g, x, y, out: g, lambda g, x, y, out: g, "({} + {})"),
    "-": BinaryOperator(np.subtract, lambda g, x, y, out: g, lambda g, x, y, out: -g, "({} - {})"),
    "*": BinaryOperator(np.multiply, lambda g, x, y, out: g * y, lambda g, x, y, out: g * x, "({} * {})"),
    "/": BinaryOperator(np.divide, lambda g, x, y, out: g / y, lambda g, x, y, out: -g * out / y, "({} / {})"),
    "**": BinaryOperator(np.power, lambda g, x, y, out: g * y * np.power(x, y - 1.0), _pull_exponent, "{}**{}"),
    "minimum": BinaryOperator(
        np.minimum, lambda g, x, y, out: g * (x <= y), lambda g, x, y, out: g * (x > y), "np.minimum({}, {})"
    ),
    "maximum": BinaryOperator(
        np.maximum, lambda g, x, y, out: g * (x >= y), lambda g, x, y, out: g * (x < y), "np.maximum({}, {})"
    ),
    "hypot": BinaryOperator(
        np.hypot, lambda g, x, y, out: g * x / out, lambda g, x, y, out: g * y / out, "np.hypot({}, {})"
    ),
    "arctan2": BinaryOperator(
        np.arctan2,
        lambda g, x, y, out: g * y / (x * x + y * y),
        lambda g, x, y, out: -g * x / (x * x + y * y),
        "np.arctan2({}, {})",
    ),
    "%": BinaryOperator(np.mod, lambda g, x, y, out: g, lambda g, x, y, out: -g * np.floor(x / y), "({} % {})"),
    "<": _comparison(np.less, "({} < {})"),
    "<=": _comparison(np.less_equal, "({} <= {})"),
    ">": _comparison(np.greater, "({} > {})"),
    ">=": _comparison(np.greater_equal, "({} >= {})"),
}
