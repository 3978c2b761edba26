"""An expression compiled to a list of numpy calls: values forward, derivatives backward."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from atoll.llmsr.fit import algebra, operators
from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.expression import Binary, Constant, Expression, Parameter, Unary, Where

type Values = list[Any]


class Program:
    """One or more expressions over the same parameters, each subexpression computed once.

    What has no parameter in it comes from the data's cache. Parameters may be numbers, or columns of numbers of the
    shape (starts, 1): then the values have the shape (starts, rows), and many starts cost few calls.

    Attributes:
        params: The indices of the parameters, in order.
        steps: (function, result, left, right or -1), by slot, in the order of computing.
        param_slots: The slot of each parameter.
        roots: The slot of each expression.
        moving: For each slot whether a parameter is in it.
    """

    def __init__(self, *expressions: Expression) -> None:
        self._slots: dict[Expression, int] = {}
        self._pulls: list[tuple[int, int, int, Any, Any]] = []
        self._loads: list[tuple[int, Expression]] = []
        self.steps: list[tuple[Any, int, int, int]] = []
        self.ops: list[str] = []
        self.moving: list[bool] = []
        self.params: tuple[int, ...] = tuple(sorted(frozenset().union(*(each.params for each in expressions))))
        self.param_slots = [self._slot(Parameter(index)) for index in self.params]
        self.roots = [self._slot(each) for each in expressions]

    def bind(self, data: Data) -> Values:
        """Returns a value per slot, those without parameters filled in."""
        values: Values = [None] * len(self.moving)
        for slot, node in self._loads:
            values[slot] = data.column(node)
        return values

    def forward(self, bound: Values, params: Sequence[Any]) -> Values:
        """Returns the value of every slot; the parameters stand in the order of `params`."""
        values = bound.copy()
        for slot, value in zip(self.param_slots, params, strict=True):
            values[slot] = value
        for apply, out, left, right in self.steps:
            values[out] = apply(values[left]) if right < 0 else apply(values[left], values[right])
        return values

    def backward(self, values: Values, flows: Sequence[Any]) -> list[Any]:
        """Returns the derivative of the sum of flow times expression by each parameter, row by row."""
        back: list[Any] = [None] * len(values)
        for slot, flow in zip(self.roots, flows, strict=True):
            back[slot] = flow if back[slot] is None else back[slot] + flow
        for out, left, right, pull_left, pull_right in reversed(self._pulls):
            flow = back[out]
            if flow is None:
                continue
            if right < 0:
                pulled = pull_left(flow, values[left], values[out])
                back[left] = pulled if back[left] is None else back[left] + pulled
                continue
            if pull_left is not None:
                pulled = pull_left(flow, values[left], values[right], values[out])
                back[left] = pulled if back[left] is None else back[left] + pulled
            if pull_right is not None:
                pulled = pull_right(flow, values[left], values[right], values[out])
                back[right] = pulled if back[right] is None else back[right] + pulled
        return [0.0 if back[slot] is None else back[slot] for slot in self.param_slots]

    def values(self, data: Data, params: Sequence[float]) -> Array:
        """Returns the values of the first expression, one per row; `params[i]` is parameter i."""
        with np.errstate(all="ignore"):
            found = self.forward(self.bind(data), [params[index] for index in self.params])[self.roots[0]]
        return np.array(np.broadcast_to(found, data.y.shape), dtype=np.float64)

    def gradient(self, data: Data, params: Sequence[float]) -> Array:
        """Returns the derivative of the first expression by each of `params`: parameters by rows."""
        with np.errstate(all="ignore"):
            values = self.forward(self.bind(data), [params[index] for index in self.params])
            found = self.backward(values, [1.0] + [0.0] * (len(self.roots) - 1))
        return np.array([np.broadcast_to(each, data.y.shape) for each in found]).reshape(-1, data.num_rows)

    def _slot(self, node: Expression) -> int:
        slot = self._slots.get(node)
        if slot is None:
            slot = self._slots[node] = self._compiled(node)
        return slot

    def _compiled(self, node: Expression) -> int:
        if not node.params:
            slot = self._new(False)
            self._loads.append((slot, node))
            return slot
        match node:
            case Unary(op=op, arg=arg):
                unary = operators.UNARY[op]
                return self._step(op, unary.apply, self._slot(arg), -1, unary.pull, None)
            case Binary(op="**", left=base, right=Constant(value=exponent)) if product := algebra.power(base, exponent):
                return self._slot(product)
            case Binary(op=op, left=left, right=right):
                binary = operators.BINARY[op]
                first, second = self._slot(left), self._slot(right)
                return self._step(op, binary.apply, first, second, binary.pull_left, binary.pull_right)
            case Where(condition=condition, left=left, right=right):
                # Two steps of two arguments, so that the loops above know no third one.
                pair = self._step("", _pair, self._slot(condition), self._slot(left), None, _pass_right)
                return self._step("where", _select, pair, self._slot(right), _pull_chosen, _pull_other)
        return self._new(True)  # a parameter

    def _step(self, op: str, apply: Any, left: int, right: int, pull_left: Any, pull_right: Any) -> int:
        out = self._new(True)
        self.steps.append((apply, out, left, right))
        self.ops.append(op)
        pull_left = pull_left if self.moving[left] else None
        pull_right = pull_right if right >= 0 and self.moving[right] else None
        if pull_left or pull_right:
            self._pulls.append((out, left, right, pull_left, pull_right))
        return out

    def _new(self, moving: bool) -> int:
        self.moving.append(moving)
        return len(self.moving) - 1


def _pair(condition: Any, value: Any) -> tuple[Any, Any]:
    return condition, value


def _select(pair: tuple[Any, Any], other: Any) -> Any:
    return np.where(pair[0], pair[1], other)


def _pass_right(flow: Any, x: Any, y: Any, out: Any) -> Any:
    return flow


def _pull_chosen(flow: Any, pair: tuple[Any, Any], other: Any, out: Any) -> Any:
    return np.where(pair[0], flow, 0.0)


def _pull_other(flow: Any, pair: tuple[Any, Any], other: Any, out: Any) -> Any:
    return np.where(pair[0], 0.0, flow)
