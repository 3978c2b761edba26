"""Operations of expressions, each with its derivative and its Python source."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

# Values are arrays over the rows, or numbers without a column; numpy treats both alike.
type Value = Any
# (adjoint of the result, argument, result) -> adjoint of the argument
type UnaryBackward = Callable[[Value, Value, Value], Value]
# With two arguments: (adjoint, left, right, result).
type BinaryBackward = Callable[[Value, Value, Value, Value], Value]


@dataclass(frozen=True, slots=True)
class UnaryOperator:
    """Operation on one argument.

    Attributes:
        apply: The numpy function.
        backward: Its derivative times the adjoint of the result; None if the derivative is zero.
        text: Python source, with `{}` for the argument.
    """

    apply: Callable[[Value], Value]
    backward: UnaryBackward | None
    text: str


@dataclass(frozen=True, slots=True)
class BinaryOperator:
    """Operation on two arguments, with a derivative by each."""

    apply: Callable[[Value, Value], Value]
    backward_left: BinaryBackward | None
    backward_right: BinaryBackward | None
    text: str


def _make_unary(name: str, backward: UnaryBackward | None, text: str | None = None) -> UnaryOperator:
    return UnaryOperator(getattr(np, name), backward, text or f"np.{name}({{}})")


UNARY: Mapping[str, UnaryOperator] = {
    "neg": _make_unary("negative", lambda g, x, out: -g, "(-{})"),
    "reciprocal": _make_unary("reciprocal", lambda g, x, out: -g * out * out, "(1.0 / {})"),
    "square": _make_unary("square", lambda g, x, out: 2.0 * g * x, "{}**2"),
    "sqrt": _make_unary("sqrt", lambda g, x, out: 0.5 * g / out),
    "cbrt": _make_unary("cbrt", lambda g, x, out: g / (3.0 * out * out)),
    "abs": _make_unary("abs", lambda g, x, out: g * np.sign(x)),
    "sign": _make_unary("sign", None),
    "floor": _make_unary("floor", None),
    "ceil": _make_unary("ceil", None),
    "exp": _make_unary("exp", lambda g, x, out: g * out),
    "exp2": _make_unary("exp2", lambda g, x, out: g * out * np.log(2.0)),
    "expm1": _make_unary("expm1", lambda g, x, out: g * (out + 1.0)),
    "log": _make_unary("log", lambda g, x, out: g / x),
    "log2": _make_unary("log2", lambda g, x, out: g / (x * np.log(2.0))),
    "log10": _make_unary("log10", lambda g, x, out: g / (x * np.log(10.0))),
    "log1p": _make_unary("log1p", lambda g, x, out: g / (1.0 + x)),
    "sin": _make_unary("sin", lambda g, x, out: g * np.cos(x)),
    "cos": _make_unary("cos", lambda g, x, out: -g * np.sin(x)),
    "tan": _make_unary("tan", lambda g, x, out: g * (1.0 + out * out)),
    "sinh": _make_unary("sinh", lambda g, x, out: g * np.cosh(x)),
    "cosh": _make_unary("cosh", lambda g, x, out: g * np.sinh(x)),
    "tanh": _make_unary("tanh", lambda g, x, out: g * (1.0 - out * out)),
    "arcsin": _make_unary("arcsin", lambda g, x, out: g / np.sqrt(1.0 - x * x)),
    "arccos": _make_unary("arccos", lambda g, x, out: -g / np.sqrt(1.0 - x * x)),
    "arctan": _make_unary("arctan", lambda g, x, out: g / (1.0 + x * x)),
    "arcsinh": _make_unary("arcsinh", lambda g, x, out: g / np.sqrt(1.0 + x * x)),
    "arccosh": _make_unary("arccosh", lambda g, x, out: g / np.sqrt(x * x - 1.0)),
    "arctanh": _make_unary("arctanh", lambda g, x, out: g / (1.0 - x * x)),
}


def _backward_exponent(g: Value, x: Value, y: Value, out: Value) -> Value:
    """Returns the adjoint of an exponent; zero for a base of zero."""
    return g * np.where(out == 0.0, 0.0, out * np.log(np.where(x == 0.0, 1.0, x)))


def _make_comparison(compare: Callable[[Value, Value], Value], text: str) -> BinaryOperator:
    """Returns a comparison that gives 1.0 or 0.0, because numpy does not subtract booleans."""
    return BinaryOperator(lambda x, y: compare(x, y) * 1.0, None, None, text)


BINARY: Mapping[str, BinaryOperator] = {
    "+": BinaryOperator(np.add, lambda g, x, y, out: g, lambda g, x, y, out: g, "({} + {})"),
    "-": BinaryOperator(np.subtract, lambda g, x, y, out: g, lambda g, x, y, out: -g, "({} - {})"),
    "*": BinaryOperator(np.multiply, lambda g, x, y, out: g * y, lambda g, x, y, out: g * x, "({} * {})"),
    "/": BinaryOperator(np.divide, lambda g, x, y, out: g / y, lambda g, x, y, out: -g * out / y, "({} / {})"),
    "**": BinaryOperator(np.power, lambda g, x, y, out: g * y * np.power(x, y - 1.0), _backward_exponent, "{}**{}"),
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
    "<": _make_comparison(np.less, "({} < {})"),
    "<=": _make_comparison(np.less_equal, "({} <= {})"),
    ">": _make_comparison(np.greater, "({} > {})"),
    ">=": _make_comparison(np.greater_equal, "({} >= {})"),
}
