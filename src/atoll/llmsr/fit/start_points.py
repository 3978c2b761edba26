"""Start points for nonlinear parameters, drawn at the scale of the data.

A parameter that is added to a value or compared with it is drawn from the range of the value. A factor is drawn at the
inverse of its scale, a divisor at its scale, and an exponent from small numbers. If the value itself has parameters,
these are drawn first. A parameter that is only added to other parameters is drawn like them.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from atoll.llmsr.fit.data import Array, Data
from atoll.llmsr.fit.program import Program

_OFFSETS = {"+", "-", "minimum", "maximum", "<", "<=", ">", ">=", "%", "hypot"}
_PERIODIC = {"sin", "cos", "tan"}
_RANGE_MARGIN = 0.2  # of the range: an offset may be this far outside of the data
_RATE_RANGE = (0.05, 5.0)  # of the inverse scale
_ANGLE_RANGE = (0.3, 30.0)  # radians per standard deviation
_UNSCALED_SHARE = 0.25  # of rates drawn around 1 independent of the data, because laws often have plain numbers
_POWER_RANGE = (-3.0, 3.0)


def draw_starts(program: Program, data: Data, num_starts: int, rng: np.random.Generator) -> Array:
    """Returns starts by parameters, in the order of `program.params`."""
    return _StartSampler(program, data, num_starts, rng).sample()


class _StartSampler:
    def __init__(self, program: Program, data: Data, num_starts: int, rng: np.random.Generator) -> None:
        self._program, self._rng, self._shape = program, rng, (num_starts, 1)
        self._values = program.bind(data)
        self._drawn: dict[int, Array] = {}  # by slot of the parameter
        self._scaled = self._find_scaled()
        self._ranges: dict[int, tuple[float, float]] = {}
        self._periodic = self._find_periodic()

    def sample(self) -> Array:
        self._draw_offsets()
        for (apply, out, left, right), op in zip(self._program.steps, self._program.ops, strict=True):
            if out in self._scaled:
                continue
            for slot, other in ((left, right), (right, left)):
                param = self._find_undrawn(slot)
                if param is not None and (right < 0 or self._find_undrawn(other) is None):
                    self._set_drawn(
                        slot,
                        self._draw_for_operation(op, out, slot == left, None if right < 0 else self._get_value(other)),
                    )
                elif param is not None:
                    self._set_drawn(slot, self._draw_log_uniform(0.1, 10.0))
            arguments = (self._get_value(left),) if right < 0 else (self._get_value(left), self._get_value(right))
            self._values[out] = apply(*arguments)
        for slot in self._program.param_slots:
            if slot not in self._drawn:
                self._drawn[slot] = self._draw_log_uniform(0.1, 10.0)
        return np.concatenate([self._drawn[slot] for slot in self._program.param_slots], axis=1)

    def _find_scaled(self) -> dict[int, tuple[int, float]]:
        """Returns the slots that are a parameter times a number."""
        scaled = {slot: (slot, 1.0) for slot in self._program.param_slots}
        for (_, out, left, right), op in zip(self._program.steps, self._program.ops, strict=True):
            if op == "neg" and left in scaled:
                scaled[out] = (scaled[left][0], -scaled[left][1])
            elif op in {"*", "/"} and left in scaled and (constant := self._get_constant(right)):
                scaled[out] = (scaled[left][0], scaled[left][1] * (constant if op == "*" else 1.0 / constant))
            elif op == "*" and right in scaled and (constant := self._get_constant(left)):
                scaled[out] = (scaled[right][0], scaled[right][1] * constant)
        return scaled

    def _find_periodic(self) -> set[int]:
        """Returns the slots that are used as an angle."""
        periodic: set[int] = set()
        for (_, out, left, right), op in zip(reversed(self._program.steps), reversed(self._program.ops), strict=True):
            if op in _PERIODIC:
                periodic.add(left)
            elif out in periodic and op in {"+", "-", "*", "/", "neg"}:
                periodic.update((left, right))
        return periodic

    def _draw_offsets(self) -> None:
        """Draws the parameters that are added to a column, and those that are added to one of these."""
        links: list[tuple[int, int]] = []
        for (_, _, left, right), op in zip(self._program.steps, self._program.ops, strict=True):
            if op not in _OFFSETS:
                continue
            for slot, other in ((left, right), (right, left)):
                if slot in self._scaled and other in self._scaled:
                    links.append((self._scaled[slot][0], self._scaled[other][0]))
                elif self._find_undrawn(slot) is not None and isinstance(self._values[other], np.ndarray):
                    column = self._values[other]
                    low, high = float(column.min()), float(column.max())
                    if math.isfinite(low) and math.isfinite(high):
                        self._ranges[self._scaled[slot][0]] = (low, high)
                        self._set_drawn(slot, self._draw_offset(low, high, opposite=op == "+"))
        for linked_slot, other in links:
            if linked_slot not in self._drawn and other in self._ranges:
                self._drawn[linked_slot] = self._draw_offset(*self._ranges[other], opposite=False)

    def _draw_for_operation(self, op: str, out: int, is_left: bool, other: Any) -> Array:
        """Returns draws for a parameter that is combined with a value in an operation."""
        if other is None or isinstance(other, tuple):  # alone, or one branch of `where`
            return self._draw_log_uniform(0.1, 3.0)
        if op == "**":
            if is_left:
                return np.abs(self._draw_log_uniform(0.3, 3.0))
            return self._rng.uniform(*_POWER_RANGE, self._shape)
        size, width = _compute_scales(other, self._shape)
        if op == "*":
            kind = self._rng.random(self._shape)
            rate = self._draw_log_uniform(*_RATE_RANGE) / np.where(kind < 0.5, size, width)
            if out in self._periodic:
                rate = np.abs(self._draw_log_uniform(*_ANGLE_RANGE)) / width
            return np.where(kind < 1.0 - _UNSCALED_SHARE, rate, self._draw_log_uniform(0.1, 10.0))
        if op == "/":
            return self._draw_log_uniform(0.1, 10.0) * size
        if op in _OFFSETS and isinstance(other, np.ndarray) and other.shape[-1] > 1:
            low, high = np.min(other, axis=-1, keepdims=True), np.max(other, axis=-1, keepdims=True)
            return np.nan_to_num(self._draw_offset(low, high, opposite=op == "+"), nan=1.0, posinf=1.0, neginf=-1.0)
        return self._draw_log_uniform(0.1, 10.0) * size

    def _draw_offset(self, low: Any, high: Any, *, opposite: bool) -> Array:
        """Returns draws from a slightly wider range; half of them negated if they are added."""
        offsets: Array = low + (high - low) * self._rng.uniform(-_RANGE_MARGIN, 1.0 + _RANGE_MARGIN, self._shape)
        is_negated = self._rng.random(self._shape) < (0.5 if opposite else 0.1)
        return np.where(is_negated, -offsets, offsets)

    def _draw_log_uniform(self, low: float, high: float) -> Array:
        """Returns numbers of both signs whose logarithm is uniform."""
        size = np.exp(self._rng.uniform(math.log(low), math.log(high), self._shape))
        return np.where(self._rng.random(self._shape) < 0.5, -size, size)

    def _set_drawn(self, slot: int, values: Array) -> None:
        param, factor = self._scaled[slot]
        self._drawn[param] = values / factor

    def _find_undrawn(self, slot: int) -> int | None:
        param = self._scaled[slot][0] if slot in self._scaled else None
        return None if param in self._drawn else param

    def _get_value(self, slot: int) -> Any:
        if slot in self._scaled:
            param, factor = self._scaled[slot]
            return self._drawn[param] * factor
        return self._values[slot]

    def _get_constant(self, slot: int) -> float:
        value = self._values[slot]
        return 0.0 if value is None or isinstance(value, np.ndarray) else float(value)


def _compute_scales(value: Any, shape: Sequence[int]) -> tuple[Array, Array]:
    """Returns size and width of the values for each start; 1 if zero or not finite."""
    rows = np.atleast_1d(np.asarray(value, dtype=np.float64))
    count = rows.shape[-1]
    mean, square = rows.sum(axis=-1, keepdims=True) / count, np.einsum("...i,...i", rows, rows)[..., None] / count
    size, width = np.sqrt(square), np.sqrt(np.maximum(square - mean * mean, 0.0))
    size = np.where(np.isfinite(size) & (size > 0.0), size, 1.0)
    width = np.where(np.isfinite(width) & (width > 0.0), width, size)
    return np.broadcast_to(size, shape), np.broadcast_to(width, shape)
