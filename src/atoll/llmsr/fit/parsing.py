"""Parses an equation from the source of a Python function. The source is never run."""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atoll.llmsr.fit import expression
from atoll.llmsr.fit.expression import ONE, ZERO, Binary, Constant, Expression, Parameter, Unary, Variable, Where

_MAX_NODES = 20_000  # of an expression as a tree
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
_IDENTITY_CALLS = {"asarray", "array", "float64", "float"}  # functions that return numbers unchanged

type Names = dict[str, Expression | list[Expression]]


class UnsupportedEquation(ValueError):
    """The source may be valid, but is not one differentiable expression."""


class InvalidEquation(ValueError):
    """The source is not an equation of these columns."""


@dataclass(frozen=True, slots=True)
class Equation:
    """Parsed function of columns and parameters.

    Attributes:
        name: Name of the function.
        columns: Names of its arguments without the parameters.
        expression: Its return value.
    """

    name: str
    columns: tuple[str, ...]
    expression: Expression


def parse(source: str, columns: Sequence[str] | None = None) -> Equation:
    """Parses a function of columns and, as its last argument, parameters: `def equation(x, v, params): ...`.

    Its statements are assignments and one return. A bare expression of `columns` and `params` is valid too.

    Args:
        source: The source text.
        columns: Names of the columns of the data, in the order of the arguments.

    Raises:
        InvalidEquation: The source is not valid Python, uses an undefined name, or takes other columns.
        UnsupportedEquation: The source has loops, branches or calls that cannot be differentiated.
    """
    try:
        tree = ast.parse(source)
        function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
        if function is None:
            return _parse_bare_expression(tree, tuple(columns or ()))
        return _parse_function(function, columns)
    except (SyntaxError, ValueError) as error:
        if isinstance(error, InvalidEquation | UnsupportedEquation):
            raise
        raise InvalidEquation(f"it is not valid Python: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise UnsupportedEquation("it is nested too deeply") from error


def _parse_bare_expression(tree: ast.Module, columns: tuple[str, ...]) -> Equation:
    match tree.body:
        case [ast.Expr(value=value)] if columns:
            return Equation("equation", columns, _EquationParser(columns, "params").parse_expression(value))
    raise InvalidEquation("it defines no function; write `def equation(..., params):`")


def _parse_function(function: ast.FunctionDef, columns: Sequence[str] | None) -> Equation:
    arguments = function.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise UnsupportedEquation("its arguments are not a plain list")
    names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if len(names) < 2:
        raise InvalidEquation(f"{function.name} takes {len(names)} arguments; it needs columns and, last, params")
    *argument_names, params = names
    if columns is not None and len(argument_names) != len(columns):
        raise InvalidEquation(
            f"{function.name} takes {len(argument_names)} columns ({', '.join(argument_names)}), "
            f"but the data has {len(columns)}"
        )
    expression = _EquationParser(argument_names, params).parse_body(function.body)
    return Equation(function.name, tuple(columns or argument_names), expression)


class _EquationParser:
    """Converts statements to one expression."""

    def __init__(self, columns: Sequence[str], params: str) -> None:
        self._params = params
        self._names: Names = {name: Variable(index) for index, name in enumerate(columns)}

    def parse_body(self, statements: Sequence[ast.stmt]) -> Expression:
        for statement in statements:
            match statement:
                case ast.Return(value=ast.expr() as value):
                    expression = self.parse_expression(value)
                    if expression.size > _MAX_NODES:
                        raise UnsupportedEquation(f"it has more than {_MAX_NODES} nodes when written out")
                    return expression
                case ast.Assign(targets=targets, value=value):
                    for target in targets:
                        self._assign(target, value)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, value)
                case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                    self._names[name] = self._parse_binary(op, self._look_up_name(name), self.parse_expression(value))
                case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.Import() | ast.ImportFrom():
                    pass  # a docstring, or an import of numpy
                case _:
                    raise UnsupportedEquation(f"line {statement.lineno} is a {_describe_node(statement)}")
        raise InvalidEquation("it returns nothing")

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Name(id=name):
                self._names[name] = self._parse_sequence(value) or self.parse_expression(value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts) if all(isinstance(part, ast.Name) for part in parts):
                values = self._parse_sequence(value)
                if values is None or len(values) != len(parts):
                    raise UnsupportedEquation(f"line {target.lineno} does not unpack a list of {len(parts)} values")
                self._names.update({ast.unparse(name): value for name, value in zip(parts, values, strict=True)})
            case _:
                raise UnsupportedEquation(f"line {target.lineno} assigns to {ast.unparse(target)}")

    def _parse_sequence(self, node: ast.expr) -> list[Expression] | None:
        """Returns several values, such as `params[:3]`; None for a single value."""
        match node:
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return [self.parse_expression(part) for part in parts]
            case ast.Subscript(value=ast.Name(id=self._params), slice=ast.Slice(lower=low, upper=high, step=None)):
                first, last = 0 if low is None else _parse_index(low), None if high is None else _parse_index(high)
                if first is None or last is None:
                    raise UnsupportedEquation(f"{ast.unparse(node)} has no constant bounds")
                return [Parameter(index) for index in range(first, last)]
        return None

    def parse_expression(self, node: ast.expr) -> Expression:
        match node:
            case ast.Constant(value=bool() | int() | float() as constant):
                return Constant(constant)
            case ast.Name(id=name):
                return self._look_up_name(name)
            case ast.BinOp(left=left, op=op, right=right):
                return self._parse_binary(op, self.parse_expression(left), self.parse_expression(right))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return _make_unary("neg", self.parse_expression(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.parse_expression(operand)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return Binary(_COMPARE[type(op)], self.parse_expression(left), self.parse_expression(right))
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES and name in _CONSTANTS:
                return Constant(_CONSTANTS[name])
            case ast.Subscript(value=ast.Name(id=self._params), slice=index) if (
                parameter_index := _parse_index(index)
            ) is not None:
                return Parameter(parameter_index)
            case ast.Subscript(value=ast.Name(id=name), slice=index) if isinstance(self._names.get(name), list):
                return self._get_item(name, _parse_index(index))
            case ast.Call(func=func, args=arguments, keywords=[]):
                return self._parse_call(func, arguments)
        raise UnsupportedEquation(f"{ast.unparse(node)[:60]} cannot be differentiated")

    def _look_up_name(self, name: str) -> Expression:
        bound_value = self._names.get(name)
        if isinstance(bound_value, Expression):
            return bound_value
        if name == self._params or isinstance(bound_value, list):
            raise UnsupportedEquation(f"{name} is used without an index")
        column_names = ", ".join(column for column in self._names if isinstance(self._names[column], Variable))
        raise InvalidEquation(f"it uses {name}, which is neither a column ({column_names}) nor assigned before")

    def _get_item(self, name: str, index: int | None) -> Expression:
        values = self._names[name]
        if not isinstance(values, list) or index is None or index >= len(values):
            raise UnsupportedEquation(f"{name} has no such item")
        return values[index]

    def _parse_binary(self, op: ast.operator, left: Expression, right: Expression) -> Expression:
        if isinstance(op, ast.FloorDiv):
            return _make_unary("floor", _make_binary("/", left, right))
        if type(op) not in _BINARY:
            raise UnsupportedEquation(f"{_describe_node(op)} cannot be differentiated")
        return _make_binary(_BINARY[type(op)], left, right)

    def _parse_call(self, func: ast.expr, argument_nodes: Sequence[ast.expr]) -> Expression:
        match func:
            case ast.Name(id="abs" | "float" | "pow" as name):
                pass
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in _MODULES:
                pass
            case _:
                raise UnsupportedEquation(f"it calls {ast.unparse(func)[:60]}")
        arguments = [self.parse_expression(node) for node in argument_nodes]
        result = _make_call(_ALIASES.get(name, name), arguments)
        if result is None:
            raise UnsupportedEquation(f"it calls {ast.unparse(func)} with {len(arguments)} arguments")
        return result


def _make_call(name: str, arguments: Sequence[Expression]) -> Expression | None:
    match name, arguments:
        case _, [arg] if name in expression.UNARY:
            return _make_unary(name, arg)
        case _, [left, right] if name in expression.BINARY:
            return _make_binary(name, left, right)
        case _, [arg] if name in _IDENTITY_CALLS:
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
            return _make_binary("minimum", _make_binary("maximum", arg, low), high)
        case "deg2rad" | "radians", [arg]:
            return _make_binary("*", arg, Constant(math.pi / 180.0))
    return None


def _make_unary(op: str, arg: Expression) -> Expression:
    if isinstance(arg, Constant):
        return _compute_constant(expression.UNARY[op].apply, arg.value)
    return Unary(op, arg)


def _make_binary(op: str, left: Expression, right: Expression) -> Expression:
    if isinstance(left, Constant) and isinstance(right, Constant):
        return _compute_constant(expression.BINARY[op].apply, left.value, right.value)
    return Binary(op, left, right)


def _compute_constant(apply: Callable[..., Any], *values: float) -> Constant:
    with np.errstate(all="ignore"):
        return Constant(apply(*map(np.float64, values)))


def _parse_index(node: ast.expr) -> int | None:
    """Returns a constant index that is not negative. A negative one says nothing about the number of items."""
    match node:
        case ast.Constant(value=int() as index) if index >= 0 and not isinstance(index, bool):
            return index
    return None


_STATEMENT_NAMES: Mapping[type[ast.AST], str] = {
    ast.For: "loop",
    ast.While: "loop",
    ast.If: "branch",
    ast.FunctionDef: "function",
}


def _describe_node(node: ast.AST) -> str:
    return _STATEMENT_NAMES.get(type(node), type(node).__name__.lower())
