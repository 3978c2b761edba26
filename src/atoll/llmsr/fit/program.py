"""Expressions compiled to a list of numpy calls: values forward, derivatives backward."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from atoll.llmsr.fit import algebra, expression
from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.expression import Binary, Constant, Expression, Parameter, Unary, Where

type Values = list[Any]


class Program:
    """One or more expressions with the same parameters. Each common subexpression is computed once.

    Values without parameters come from the cache of the data. Parameters are numbers, or arrays of the shape
    (starts, 1). Then the values have the shape (starts, rows), and many starts cost few calls.

    Attributes:
        params: Indices of the parameters, in order.
        steps: (function, result, left, right or -1) by slot, in order of computation.
        param_slots: Slot of each parameter.
        roots: Slot of each expression.
        has_parameter: Whether each slot depends on a parameter.
    """

    def __init__(self, *expressions: Expression) -> None:
        self._slots: dict[Expression, int] = {}
        self._backward_steps: list[tuple[int, int, int, Any, Any]] = []
        self._loads: list[tuple[int, Expression]] = []
        self.steps: list[tuple[Any, int, int, int]] = []
        self.ops: list[str] = []
        self.has_parameter: list[bool] = []
        self.params: tuple[int, ...] = tuple(
            sorted(frozenset().union(*(expression.params for expression in expressions)))
        )
        self.param_slots = [self._get_slot(Parameter(index)) for index in self.params]
        self.roots = [self._get_slot(expression) for expression in expressions]

    def bind(self, data: Data) -> Values:
        """Returns the values of all slots; those without parameters are filled in."""
        values: Values = [None] * len(self.has_parameter)
        for slot, node in self._loads:
            values[slot] = data.evaluate(node)
        return values

    def forward(self, bound: Values, params: Sequence[Any]) -> Values:
        """Returns the value of every slot. The parameters are in the order of `params`."""
        values = bound.copy()
        for slot, value in zip(self.param_slots, params, strict=True):
            values[slot] = value
        for apply, out, left, right in self.steps:
            values[out] = apply(values[left]) if right < 0 else apply(values[left], values[right])
        return values

    def backward(self, values: Values, adjoints: Sequence[Any]) -> list[Any]:
        """Returns the derivative of the sum of adjoint times expression by each parameter, for each row."""
        gradients: list[Any] = [None] * len(values)
        for slot, adjoint in zip(self.roots, adjoints, strict=True):
            gradients[slot] = adjoint if gradients[slot] is None else gradients[slot] + adjoint
        for out, left, right, backward_left, backward_right in reversed(self._backward_steps):
            adjoint = gradients[out]
            if adjoint is None:
                continue
            if right < 0:
                gradient = backward_left(adjoint, values[left], values[out])
                gradients[left] = gradient if gradients[left] is None else gradients[left] + gradient
                continue
            if backward_left is not None:
                gradient = backward_left(adjoint, values[left], values[right], values[out])
                gradients[left] = gradient if gradients[left] is None else gradients[left] + gradient
            if backward_right is not None:
                gradient = backward_right(adjoint, values[left], values[right], values[out])
                gradients[right] = gradient if gradients[right] is None else gradients[right] + gradient
        return [0.0 if gradients[slot] is None else gradients[slot] for slot in self.param_slots]

    def evaluate(self, data: Data, params: Sequence[float]) -> Array:
        """Returns the values of the first expression, one per row. `params[i]` is parameter i."""
        with np.errstate(all="ignore"):
            values = self.forward(self.bind(data), [params[index] for index in self.params])[self.roots[0]]
        return np.array(np.broadcast_to(values, data.y.shape), dtype=np.float64)

    def compute_gradient(self, data: Data, params: Sequence[float]) -> Array:
        """Returns the derivative of the first expression by each of `params`: parameters by rows."""
        with np.errstate(all="ignore"):
            values = self.forward(self.bind(data), [params[index] for index in self.params])
            gradients = self.backward(values, [1.0] + [0.0] * (len(self.roots) - 1))
        return np.array([np.broadcast_to(gradient, data.y.shape) for gradient in gradients]).reshape(-1, data.num_rows)

    def _get_slot(self, node: Expression) -> int:
        slot = self._slots.get(node)
        if slot is None:
            slot = self._slots[node] = self._compile(node)
        return slot

    def _compile(self, node: Expression) -> int:
        if not node.params:
            slot = self._add_slot(False)
            self._loads.append((slot, node))
            return slot
        match node:
            case Unary(op=op, arg=arg):
                unary = expression.UNARY[op]
                return self._add_step(op, unary.apply, self._get_slot(arg), -1, unary.backward, None)
            case Binary(op="**", left=base, right=Constant(value=exponent)) if product := algebra.make_power(
                base, exponent
            ):
                return self._get_slot(product)
            case Binary(op=op, left=left, right=right):
                binary = expression.BINARY[op]
                first, second = self._get_slot(left), self._get_slot(right)
                return self._add_step(op, binary.apply, first, second, binary.backward_left, binary.backward_right)
            case Where(condition=condition, left=left, right=right):
                # Two steps with two arguments each, so that the loops above need no third argument.
                pair = self._add_step("", _pair, self._get_slot(condition), self._get_slot(left), None, _pass_adjoint)
                return self._add_step("where", _select, pair, self._get_slot(right), _backward_chosen, _backward_other)
        return self._add_slot(True)  # a parameter

    def _add_step(self, op: str, apply: Any, left: int, right: int, backward_left: Any, backward_right: Any) -> int:
        out = self._add_slot(True)
        self.steps.append((apply, out, left, right))
        self.ops.append(op)
        backward_left = backward_left if self.has_parameter[left] else None
        backward_right = backward_right if right >= 0 and self.has_parameter[right] else None
        if backward_left or backward_right:
            self._backward_steps.append((out, left, right, backward_left, backward_right))
        return out

    def _add_slot(self, has_parameter: bool) -> int:
        self.has_parameter.append(has_parameter)
        return len(self.has_parameter) - 1


def _pair(condition: Any, value: Any) -> tuple[Any, Any]:
    return condition, value


def _select(pair: tuple[Any, Any], other: Any) -> Any:
    return np.where(pair[0], pair[1], other)


def _pass_adjoint(adjoint: Any, x: Any, y: Any, out: Any) -> Any:
    return adjoint


def _backward_chosen(adjoint: Any, pair: tuple[Any, Any], other: Any, out: Any) -> Any:
    return np.where(pair[0], adjoint, 0.0)


def _backward_other(adjoint: Any, pair: tuple[Any, Any], other: Any, out: Any) -> Any:
    return np.where(pair[0], 0.0, adjoint)
