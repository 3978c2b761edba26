"""14 points in 3 dimensions: linear programs enlarge the smallest distance relative to the largest."""

import numpy as np
from scipy.optimize import linprog

COUNT, DIMENSIONS = 14, 3

# EVOLVE-BLOCK-START
START = 0  # tunable: 0..9999
STEP = 0.2  # tunable: 0.01..0.5
SHRINK = 0.5  # tunable: 0.1..0.8
NUM_MOVED = 1  # tunable: 1..4
NUM_DRAWS = 1  # tunable: 1..60
JITTER = 0.0  # tunable: 0.0..0.1
NUM_TRIALS = 2
MAX_PROGRAMS = 100


def construct():
    """Returns 14 points in 3 dimensions."""
    rng = np.random.default_rng(START)
    points = climb(draw(rng, COUNT), 1e-3)
    for _ in range(NUM_TRIALS):
        trial = climb(move(points, rng), 1e-3)
        if measure(trial) > measure(points):
            points = trial
    return climb(points, 1e-9)


def move(points, rng):
    """Returns the points with some at new places, the best of several draws."""
    chosen = rng.choice(COUNT, NUM_MOVED, replace=False)
    drawn = []
    for _ in range(NUM_DRAWS):
        trial = points + JITTER * rng.standard_normal(points.shape)
        trial[chosen] = draw(rng, NUM_MOVED)
        drawn.append(repair(trial))
    return max(drawn, key=measure)


def climb(points, precision):
    """Returns better points. Each linear program moves every coordinate by at most a step."""
    points = repair(points)
    step, score = STEP, measure(points)
    for _ in range(MAX_PROGRAMS):
        trial = repair(improve(points, step))
        trial_score = measure(trial)
        step *= SHRINK if trial_score < score * (1 + step) else 1.0
        if trial_score > score:
            points, score = trial, trial_score
        if step < precision:
            break
    return points


# EVOLVE-BLOCK-END


def draw(rng, count):
    """Returns uniform points of a cube that most good sets fill."""
    return 0.7 * rng.random((count, DIMENSIONS))


def measure(points):
    distances = compute_distances(points)
    return distances.min() / distances.max()


def repair(points):
    """Returns the points, scaled to a largest distance of 1."""
    return points / max(compute_distances(points).max(), 1e-9)


def improve(points, step):
    first, second = np.triu_indices(COUNT, 1)
    distances = compute_distances(points)
    directions = (points[first] - points[second]) / np.maximum(distances, 1e-9)[:, None]
    rows = np.arange(len(first))
    blocks = np.zeros((len(first), COUNT, DIMENSIONS))
    blocks[rows, first], blocks[rows, second] = directions, -directions
    slopes = blocks.reshape(len(first), COUNT * DIMENSIONS)
    matrix = np.block([[-slopes, np.ones((len(first), 1))], [slopes, np.zeros((len(first), 1))]])
    limits = np.concatenate([distances, 1 - distances])
    bounds = [(-step, step)] * (COUNT * DIMENSIONS) + [(None, None)]
    cost = np.r_[np.zeros(COUNT * DIMENSIONS), -1.0]
    result = linprog(cost, A_ub=matrix, b_ub=limits, bounds=bounds, method="highs-ds")
    return points if result.x is None else points + result.x[:-1].reshape(COUNT, DIMENSIONS)


def compute_distances(points):
    first, second = np.triu_indices(COUNT, 1)
    return np.linalg.norm(points[first] - points[second], axis=1)
