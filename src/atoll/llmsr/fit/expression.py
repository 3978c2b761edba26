"""Expressions as data: numbers, columns, parameters and operations.

Nodes are immutable. Each computes its hash, parameters and size once, from those of its arguments. So building,
comparing and looking up large expressions is cheap.
"""

from collections.abc import Sequence
from typing import Final

from atoll.llmsr.fit import operators

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
            return operators.UNARY[node.op].text.format(
                *map(_parenthesize, arguments) if node.op == "square" else arguments
            )
        case Binary():
            return operators.BINARY[node.op].text.format(
                *map(_parenthesize, arguments) if node.op == "**" else arguments
            )
    return f"np.where({', '.join(arguments)})"


def _parenthesize(text: str) -> str:
    """Puts parentheses around a text that a power would split."""
    return text if text.isidentifier() else f"({text})"
