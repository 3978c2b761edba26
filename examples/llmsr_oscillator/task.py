"""Find the law of a damped, nonlinear oscillator: its acceleration from position and velocity."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import least_squares

MAX_NPARAMS = 10
NUM_ROWS, STEP_SECONDS = 80, 0.1
STARTS = [(1.0, 0.0), (2.5, 0.0), (0.3, 2.0), (-1.5, -1.0)]  # initial position and velocity of each motion


def equation(x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Returns the acceleration of an oscillator.

    Args:
        x: Position, one per row.
        v: Velocity, one per row.
        params: Ten free constants, fitted to the data before the equation is scored.
    """
    return params[0] * x + params[1] * v + params[2]


def simulate(x: float, v: float) -> dict[str, np.ndarray]:
    """Returns one motion of the oscillator, computed by Runge-Kutta. The search does not know its law."""

    def slope(state: np.ndarray) -> np.ndarray:
        return np.array([state[1], -1.2 * state[0] - 0.5 * state[0] ** 3 - 0.3 * state[1] * abs(state[1])])

    state, rows = np.array([x, v]), []
    for _ in range(NUM_ROWS):
        rows.append([*state, slope(state)[1]])
        k1 = slope(state)
        k2 = slope(state + STEP_SECONDS / 2 * k1)
        k3 = slope(state + STEP_SECONDS / 2 * k2)
        k4 = slope(state + STEP_SECONDS * k3)
        state = state + STEP_SECONDS / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    positions, velocities, accelerations = np.array(rows).T
    return {"x": positions, "v": velocities, "a": accelerations}


def inputs() -> list[dict[str, np.ndarray]]:
    """Returns two data sets with two motions each."""
    motions = [simulate(*start) for start in STARTS]
    return [
        {name: np.concatenate([first[name], second[name]]) for name in first}
        for first, second in zip(motions[::2], motions[1::2], strict=True)
    ]


def evaluate(equation: Callable[..., np.ndarray], motion: dict[str, np.ndarray]) -> float:
    """Fits the constants to the even rows and scores the odd rows: correct digits, at most 12."""
    even, odd = ({name: values[first::2] for name, values in motion.items()} for first in (0, 1))

    def residual(params: np.ndarray) -> np.ndarray:
        return np.broadcast_to(equation(even["x"], even["v"], params), even["a"].shape) - even["a"]

    with np.errstate(all="ignore"):
        params = least_squares(residual, np.ones(MAX_NPARAMS), method="lm", max_nfev=200).x
        errors = equation(odd["x"], odd["v"], params) - odd["a"]
    nmse = np.mean(errors**2) / np.var(odd["a"])
    return float(-np.log10(max(nmse, 1e-12))) if np.isfinite(nmse) else float("nan")
