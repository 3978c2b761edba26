"""26 circles: linear programs grow them from random centers, then single circles move to new places."""

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

COUNT = 26

# EVOLVE-BLOCK-START
START = 0  # tunable: 0..9999
STEP = 0.1  # tunable: 0.01..0.3
SHRINK = 0.25  # tunable: 0.1..0.8
NUM_MOVED = 1  # tunable: 1..4
JITTER = 0.0  # tunable: 0.0..0.05
NUM_TRIALS = 6
MAX_PROGRAMS = 100


def construct():
    """Returns 26 rows of x, y and radius."""
    rng = np.random.default_rng(START)
    centers, radii = grow(rng.random((COUNT, 2)))
    for _ in range(NUM_TRIALS):
        trial = centers + JITTER * rng.standard_normal((COUNT, 2))
        trial[rng.choice(COUNT, NUM_MOVED, replace=False)] = rng.random((NUM_MOVED, 2))
        other_centers, other_radii = grow(np.clip(trial, 0, 1))
        if other_radii.sum() > radii.sum():
            centers, radii = other_centers, other_radii
    return np.column_stack([centers, radii * (1 - 1e-12)])


def grow(centers):
    """Returns better centers and their best radii. Each linear program moves every center by at most a step."""
    step, total = STEP, 0.0
    centers, radii = improve(centers, step)
    for _ in range(MAX_PROGRAMS):
        centers, radii = improve(centers, step)
        step *= SHRINK if radii.sum() < total + 0.1 * step else 1.0
        total = radii.sum()
        if step < 1e-7:
            break
    return improve(np.clip(centers, 0, 1), 0.0)


# EVOLVE-BLOCK-END


def improve(centers, step):
    """Solves one linear program. A distance is convex, so circles that obey its linear form never overlap."""
    count = len(centers)
    own = np.arange(count)
    first, second = np.triu_indices(count, 1)
    difference = centers[first] - centers[second]
    distance = np.hypot(*difference.T) + 1e-15
    direction = difference / distance[:, None]
    pair = np.arange(len(first))
    wall = len(first) + np.arange(4 * count)
    ones = np.ones(count)
    rows = [pair, pair, pair, pair, pair, pair, wall, wall]
    columns = [first, count + first, second, count + second, 2 * count + first, 2 * count + second]
    columns += [own, own, count + own, count + own, *[2 * count + own] * 4]
    values = [-direction[:, 0], -direction[:, 1], direction[:, 0], direction[:, 1], np.ones(2 * len(first))]
    values += [-ones, ones, -ones, ones, np.ones(4 * count)]
    indices = (np.concatenate(rows), np.concatenate(columns))
    matrix = coo_array((np.concatenate(values), indices), shape=(len(first) + 4 * count, 3 * count))
    limits = np.concatenate([distance, centers[:, 0], 1 - centers[:, 0], centers[:, 1], 1 - centers[:, 1]])
    bounds = [(-step, step)] * (2 * count) + [(0, 0.5)] * count
    cost = np.concatenate([np.zeros(2 * count), -ones])
    result = linprog(cost, A_ub=matrix.tocsr(), b_ub=limits, bounds=bounds, method="highs-ds")
    if result.x is None:
        return centers, np.zeros(count)
    return centers + result.x[: 2 * count].reshape(2, count).T, np.maximum(result.x[2 * count :] - 1e-9, 0)
