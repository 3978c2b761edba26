"""Equal circles on a grid."""


# EVOLVE-BLOCK-START
"""Penalty method; the radii are made exact at the end."""

import numpy as np
from scipy.optimize import linprog

STEPS = 912  # tunable: 200..2000
RATE = 0.028027  # tunable: 0.001..0.05
STARTS = 12


def pack(count: int) -> list[tuple[float, float, float]]:
    """Returns x, y and radius of each circle in the unit square."""
    rng = np.random.default_rng(0)
    best, best_sum = None, -1.0
    for _ in range(STARTS):
        points = optimize(rng.uniform(0.08, 0.92, (count, 2)), np.full(count, 0.08))
        points, radii = polish(points, fit_radii(points))
        if radii.sum() > best_sum:
            best, best_sum = (points, radii), radii.sum()
    points, radii = best
    return [(float(x), float(y), float(radius)) for (x, y), radius in zip(points, radii)]


def optimize(points: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Adam on minus the sum of radii plus a weight times the squared violations."""
    state = np.column_stack([points, radii])
    first, second = np.zeros_like(state), np.zeros_like(state)
    for step in range(1, STEPS + 1):
        weight = 10.0 * 100.0 ** (step / STEPS)
        gradient = np.zeros_like(state)
        gradient[:, 2] = -1.0
        difference = state[:, None, :2] - state[None, :, :2]
        distance = np.sqrt((difference**2).sum(axis=2)) + np.eye(len(state)) * 9
        overlap = np.maximum(0.0, state[:, None, 2] + state[None, :, 2] - distance)
        np.fill_diagonal(overlap, 0.0)
        gradient[:, :2] -= 2 * weight * (overlap[:, :, None] * difference / distance[:, :, None]).sum(axis=1)
        gradient[:, 2] += 2 * weight * overlap.sum(axis=1)
        for axis in (0, 1):
            low = np.maximum(0.0, state[:, 2] - state[:, axis])
            high = np.maximum(0.0, state[:, 2] + state[:, axis] - 1)
            gradient[:, axis] += 2 * weight * (high - low)
            gradient[:, 2] += 2 * weight * (high + low)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * gradient**2
        rate = RATE * (1 - step / (STEPS + 1))
        state = state - rate * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-12)
    return np.clip(state[:, :2], 1e-3, 1 - 1e-3)


def polish(points: np.ndarray, radii: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solves linear programs in small moves of the centres. A move that does not help makes the next one smaller."""
    count, region = len(points), 0.05
    first, second = np.triu_indices(count, 1)
    rows, unit_matrix = np.arange(len(first)), np.eye(count)
    for _ in range(40):
        difference = points[first] - points[second]
        distance = np.linalg.norm(difference, axis=1)
        unit = difference / distance[:, None]
        matrix = np.zeros((len(first), 3 * count))  # columns: moves in x, moves in y, radii
        for axis in (0, 1):
            matrix[rows, axis * count + first], matrix[rows, axis * count + second] = -unit[:, axis], unit[:, axis]
        matrix[rows, 2 * count + first] = matrix[rows, 2 * count + second] = 1.0
        matrices, limits = [matrix], [distance]
        for axis in (0, 1):
            for sign, space in ((-1.0, points[:, axis]), (1.0, 1 - points[:, axis])):
                wall = np.zeros((count, 3 * count))
                wall[:, axis * count : (axis + 1) * count] = sign * unit_matrix
                wall[:, 2 * count :] = unit_matrix
                matrices.append(wall)
                limits.append(space)
        bounds = [(-region, region)] * (2 * count) + [(0, 0.5)] * count
        cost = np.concatenate([np.zeros(2 * count), -np.ones(count)])
        solved = linprog(cost, np.vstack(matrices), np.concatenate(limits), bounds=bounds)
        if solved.x is None:
            break
        moved = points + solved.x[: 2 * count].reshape(2, count).T
        moved_radii = fit_radii(moved, solved.x[2 * count :])
        if moved_radii.sum() > radii.sum() + 1e-12:
            points, radii = moved, moved_radii
        else:
            region /= 4
        if region < 1e-9:
            break
    return points, radii


def fit_radii(points: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
    """Starts with half of the distance to the nearest neighbour, then lets each circle grow into free space."""
    walls = np.minimum(points, 1 - points).min(axis=1)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    radii = np.minimum(walls, distances.min(axis=1) / 2)
    if target is not None:
        sums = (target[:, None] + target[None]).clip(1e-9)
        radii = target * min(1.0, (walls / target.clip(1e-9)).min(), (distances / sums).min())
    for _ in range(50):
        for index in range(len(points)):
            radii[index] = max(0.0, min(walls[index], (distances[index] - radii).min()))
    return radii * (1 - 1e-12)
# EVOLVE-BLOCK-END
