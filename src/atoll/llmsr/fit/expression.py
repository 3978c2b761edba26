"""Expressions as data: numbers, columns, parameters and operations.

Nodes are immutable. Each computes its hash, parameters and size once, from those of its arguments. So building,
comparing and looking up large expressions is cheap.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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


_NO_PARAMETERS: Final[frozenset[int]] = frozenset()


class Expression:
    """Node of an expression. Nodes with the same structure are equal.

    Attributes:
        params: Indices of its parameters.
        size: Number of nodes of the tree.
        num_columns: Number of columns that the data needs: the largest index plus one.
        arguments: Child nodes.
    """

    __slots__ = ("_hash", "arguments", "num_columns", "params", "size")

    _hash: int
    params: frozenset[int]
    size: int
    num_columns: int
    arguments: "tuple[Expression, ...]"

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return to_source(self)

    def __repr__(self) -> str:
        return f"<{to_source(self)}>"


class Constant(Expression):
    """Number that is not fitted."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value: Final = float(value)
        self.arguments, self.params, self.size, self.num_columns = (), _NO_PARAMETERS, 1, 0
        self._hash = hash(("constant", self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and repr(self.value) == repr(other.value)

    __hash__ = Expression.__hash__

    def __reduce__(self) -> tuple[type["Constant"], tuple[float]]:
        return Constant, (self.value,)


class Variable(Expression):
    """Column of the data, by its index."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index: Final = index
        self.arguments, self.params, self.size, self.num_columns = (), _NO_PARAMETERS, 1, index + 1
        self._hash = hash(("variable", index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variable) and self.index == other.index

    __hash__ = Expression.__hash__

    def __reduce__(self) -> tuple[type["Variable"], tuple[int]]:
        return Variable, (self.index,)


class Parameter(Expression):
    """Number that is fitted: `params[index]`."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index: Final = index
        self.arguments, self.params, self.size, self.num_columns = (), frozenset((index,)), 1, 0
        self._hash = hash(("parameter", index))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Parameter) and self.index == other.index

    __hash__ = Expression.__hash__

    def __reduce__(self) -> tuple[type["Parameter"], tuple[int]]:
        return Parameter, (self.index,)


class Unary(Expression):
    """Operation of `operators.UNARY` on one argument."""

    __slots__ = ("arg", "op")

    def __init__(self, op: str, arg: Expression) -> None:
        self.op: Final = op
        self.arg: Final = arg
        self.arguments, self.params, self.size, self.num_columns = (arg,), arg.params, arg.size + 1, arg.num_columns
        self._hash = hash((op, arg._hash))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Unary) and self._hash == other._hash and self.op == other.op and self.arg == other.arg

    __hash__ = Expression.__hash__

    def __reduce__(self) -> tuple[type["Unary"], tuple[str, Expression]]:
        return Unary, (self.op, self.arg)


class Binary(Expression):
    """Operation of `operators.BINARY` on two arguments."""

    __slots__ = ("left", "op", "right")

    def __init__(self, op: str, left: Expression, right: Expression) -> None:
        self.op: Final = op
        self.left: Final = left
        self.right: Final = right
        self.arguments, self.params, self.size = (left, right), _merge_params(left, right), left.size + right.size + 1
        self.num_columns = left.num_columns if left.num_columns > right.num_columns else right.num_columns
        self._hash = hash((op, left._hash, right._hash))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Binary) or self._hash != other._hash:
            return False
        return self.op == other.op and self.left == other.left and self.right == other.right

    __hash__ = Expression.__hash__

    def __reduce__(self) -> tuple[type["Binary"], tuple[str, Expression, Expression]]:
        return Binary, (self.op, self.left, self.right)


class Where(Expression):
    """`np.where(condition, left, right)`."""

    __slots__ = ("condition", "left", "right")

    def __init__(self, condition: Expression, left: Expression, right: Expression) -> None:
        self.condition: Final = condition
        self.left: Final = left
        self.right: Final = right
        self.arguments = (condition, left, right)
        self.params = condition.params | left.params | right.params
        self.size = condition.size + left.size + right.size + 1
        self.num_columns = max(condition.num_columns, left.num_columns, right.num_columns)
        self._hash = hash(("where", condition._hash, left._hash, right._hash))

    def __eq__(self, other: object) -> bool:
        is_equal = isinstance(other, Where) and self._hash == other._hash and self.arguments == other.arguments
        return self is other or is_equal

    __hash__ = Expression.__hash__

    def __reduce__(self) -> tuple[type["Where"], tuple[Expression, ...]]:
        return Where, self.arguments


ZERO: Final = Constant(0.0)
ONE: Final = Constant(1.0)


def _merge_params(left: Expression, right: Expression) -> frozenset[int]:
    if not right.params:
        return left.params
    return left.params | right.params if left.params else right.params


def to_source(
    node: Expression,
    names: Sequence[str] | None = None,
    params: Sequence[float] | None = None,
    params_name: str = "params",
) -> str:
    """Returns the expression as Python source.

    Args:
        node: The expression.
        names: Names of the columns; `x0`, `x1`, ... by default.
        params: Numbers to write instead of the parameters.
        params_name: Name of the parameters.
    """
    match node:
        case Constant():
            return f"({node.value!r})" if node.value < 0 else repr(node.value)
        case Variable():
            return names[node.index] if names else f"x{node.index}"
        case Parameter():
            return f"{params_name}[{node.index}]" if params is None else f"({float(params[node.index])!r})"
    arguments = [to_source(argument, names, params, params_name) for argument in node.arguments]
    match node:
        case Unary():
            return UNARY[node.op].text.format(*map(_parenthesize, arguments) if node.op == "square" else arguments)
        case Binary():
            return BINARY[node.op].text.format(*map(_parenthesize, arguments) if node.op == "**" else arguments)
    return f"np.where({', '.join(arguments)})"


def _parenthesize(text: str) -> str:
    """Puts parentheses around a text that a power would split."""
    return text if text.isidentifier() else f"({text})"
