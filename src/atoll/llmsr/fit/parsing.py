"""Reads an equation from the text of a Python function, as data: nothing of it is run."""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atoll.llmsr.fit import operators
from atoll.llmsr.fit.expression import ONE, ZERO, Binary, Constant, Expression, Parameter, Unary, Variable, Where

_LARGEST = 20_000  # nodes of an expression as a tree
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
_CONSTANTS = {"pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "euler_gamma": float(np.euler_gamma)}
_MODULES = {"np", "numpy", "math"}
_ALIASES = {
    **{"absolute": "abs", "fabs": "abs", "negative": "neg", "asin": "arcsin", "acos": "arccos", "atan": "arctan"},
    **{"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "true_divide": "/", "power": "**", "pow": "**"},
    **{"float_power": "**", "mod": "%", "remainder": "%", "fmin": "minimum", "fmax": "maximum", "atan2": "arctan2"},
    **{"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "less": "<", "greater": ">"},
}
_SAME = {"asarray", "array", "float64", "float"}  # what leaves numbers as they are

type Names = dict[str, Expression | list[Expression]]


class Unsupported(ValueError):
    """The text may well run, but cannot be read as one expression: fit it as a function, by differences."""


class Broken(ValueError):
    """The text is no equation of these columns, however it is fitted."""


@dataclass(frozen=True, slots=True)
class Equation:
    """A function of columns and parameters, read.

    Attributes:
        name: The name of the function.
        columns: The names of its arguments without the parameters.
        expression: What it returns.
    """

    name: str
    columns: tuple[str, ...]
    expression: Expression


def parse(source: str, columns: Sequence[str] | None = None) -> Equation:
    """Reads a function of columns and, as its last argument, parameters: `def equation(x, v, params): ...`.

    Its statements are assignments and one return. A bare expression of `columns` and `params` is read too.

    Args:
        source: The text.
        columns: The names of the data's columns, which the arguments stand for, one by one.

    Raises:
        Broken: It is no Python, uses a name that nobody gave it, or takes other columns.
        Unsupported: It has loops, branches or calls that cannot be differentiated here.
    """
    try:
        tree = ast.parse(source)
        function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
        if function is None:
            return _bare(tree, tuple(columns or ()))
        return _read(function, columns)
    except (SyntaxError, ValueError) as error:
        if isinstance(error, Broken | Unsupported):
            raise
        raise Broken(f"it is no Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise Unsupported("it is nested too deeply") from error


def _bare(tree: ast.Module, columns: tuple[str, ...]) -> Equation:
    match tree.body:
        case [ast.Expr(value=value)] if columns:
            return Equation("equation", columns, _Reader(columns, "params").value(value))
    raise Broken("it defines no function: write `def equation(..., params):`")


def _read(function: ast.FunctionDef, columns: Sequence[str] | None) -> Equation:
    given = function.args
    if given.vararg or given.kwarg or given.kwonlyargs:
        raise Unsupported("its arguments are not a plain list")
    names = [each.arg for each in (*given.posonlyargs, *given.args)]
    if len(names) < 2:
        raise Broken(f"{function.name} takes {len(names)} arguments: it needs columns and, last, the parameters")
    *own, params = names
    if columns is not None and len(own) != len(columns):
        raise Broken(f"{function.name} takes {len(own)} columns ({', '.join(own)}), and the data has {len(columns)}")
    expression = _Reader(own, params).body(function.body)
    return Equation(function.name, tuple(columns or own), expression)


class _Reader:
    """Turns statements into one expression, name by name."""

    def __init__(self, columns: Sequence[str], params: str) -> None:
        self._params = params
        self._names: Names = {name: Variable(index) for index, name in enumerate(columns)}

    def body(self, statements: Sequence[ast.stmt]) -> Expression:
        for statement in statements:
            match statement:
                case ast.Return(value=ast.expr() as value):
                    found = self.value(value)
                    if found.size > _LARGEST:
                        raise Unsupported(f"it has more than {_LARGEST} nodes when written out")
                    return found
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    self._names[name] = self._binary(op, self._named(name), self.value(value))
                case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
                    pass  # a docstring, or what brings numpy
                case _:
                    raise Unsupported(f"line {statement.lineno} is a {_kind(statement)}")
        raise Broken("it returns nothing")

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._names[name] = self._row(value) or self.value(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if all(isinstance(each, ast.Name) for each in parts):
                row = self._row(value)
                if row is None or len(row) != len(parts):
                    raise Unsupported(f"line {target.lineno} unpacks what is no list of {len(parts)} values")
                self._names.update({ast.unparse(name): each for name, each in zip(parts, row, strict=True)})
            case _:
                raise Unsupported(f"line {target.lineno} assigns to {ast.unparse(target)}")

    def _row(self, node: ast.expr) -> list[Expression] | None:
        """Returns several values, such as `params[:3]`; None for what is one value."""
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [self.value(each) for each in parts]
            case ast.Subscript(value=ast.Name(id=self._params), slice=ast.Slice(lower=low, upper=high, step=None)):
                first, last = 0 if low is None else _whole(low), None if high is None else _whole(high)
                if first is None or last is None:
                    raise Unsupported(f"{ast.unparse(node)} has no plain bounds")
                return [Parameter(index) for index in range(first, last)]
        return None

    def value(self, node: ast.expr) -> Expression:
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return Constant(number)
            case ast.Name(id=name):
                return self._named(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._binary(op, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _unary("neg", self.value(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.value(operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return Binary(_COMPARE[type(op)], self.value(left), self.value(right))
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES and name in _CONSTANTS:
                return Constant(_CONSTANTS[name])
            case ast.Subscript(value=ast.Name(id=self._params), slice=index) if (place := _whole(index)) is not None:
                return Parameter(place)
            case ast.Subscript(value=ast.Name(id=name), slice=index) if isinstance(self._names.get(name), list):
                return self._item(name, _whole(index))
            case ast.Call(func=func, args=arguments, keywords=[]):
                return self._call(func, arguments)
        raise Unsupported(f"{ast.unparse(node)[:60]} cannot be differentiated")

    def _named(self, name: str) -> Expression:
        found = self._names.get(name)
        if isinstance(found, Expression):
            return found
        if name == self._params or isinstance(found, list):
            raise Unsupported(f"{name} is used as a whole")
        known = ", ".join(each for each in self._names if isinstance(self._names[each], Variable))
        raise Broken(f"it uses {name}, which is neither a column ({known}) nor assigned before")

    def _item(self, name: str, place: int | None) -> Expression:
        row = self._names[name]
        if not isinstance(row, list) or place is None or place >= len(row):
            raise Unsupported(f"{name} has no such item")
        return row[place]

    def _binary(self, op: ast.operator, left: Expression, right: Expression) -> Expression:
        if isinstance(op, ast.FloorDiv):
            return _unary("floor", _binary("/", left, right))
        if type(op) not in _BINARY:
            raise Unsupported(f"{_kind(op)} cannot be differentiated")
        return _binary(_BINARY[type(op)], left, right)

    def _call(self, func: ast.expr, given: Sequence[ast.expr]) -> Expression:
        match func:
            case ast.Name(id="abs" | "float" | "pow" as name):
                pass
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES:
                pass
            case _:
                raise Unsupported(f"it calls {ast.unparse(func)[:60]}")
        arguments = [self.value(each) for each in given]
        found = _applied(_ALIASES.get(name, name), arguments)
        if found is None:
            raise Unsupported(f"it calls {ast.unparse(func)} with {len(arguments)} arguments")
        return found


def _applied(name: str, arguments: Sequence[Expression]) -> Expression | None:
    match name, arguments:
        case _, [arg] if name in operators.UNARY:
            return _unary(name, arg)
        case _, [left, right] if name in operators.BINARY:
            return _binary(name, left, right)
        case _, [arg] if name in _SAME:
            return arg
        case "zeros_like", [_]:
            return ZERO
        case "ones_like", [_]:
            return ONE
        case "full_like", [_, value]:
            return value
        case "where", [condition, left, right]:
            return Where(condition, left, right)
        case "clip", [arg, low, high]:
            return _binary("minimum", _binary("maximum", arg, low), high)
        case "deg2rad" | "radians", [arg]:
            return _binary("*", arg, Constant(math.pi / 180.0))
    return None


def _unary(op: str, arg: Expression) -> Expression:
    if isinstance(arg, Constant):
        return _number(operators.UNARY[op].apply, arg.value)
    return Unary(op, arg)


def _binary(op: str, left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _number(operators.BINARY[op].apply, left.value, right.value)
    return Binary(op, left, right)


def _number(apply: Callable[..., Any], *values: float) -> Constant:
    with np.errstate(all="ignore"):
        return Constant(apply(*map(np.float64, values)))


def _whole(node: ast.expr) -> int | None:
    """Returns a plain index; one from the end says nothing about how many there are."""
    match node:
        case ast.Constant(value=int() as number) if number >= 0 and not isinstance(number, bool):
            return number
    return None


_KINDS: Mapping[type[ast.AST], str] = {
    ast.For: "loop",
    ast.While: "loop",
    ast.If: "branch",
    ast.FunctionDef: "function",
}


def _kind(node: ast.AST) -> str:
    return _KINDS.get(type(node), type(node).__name__.lower())
