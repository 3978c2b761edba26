"""13 points: linear programs enlarge the smallest triangle of three points relative to their convex hull."""

import itertools

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

COUNT = 13
TRIPLES = np.array(list(itertools.combinations(range(COUNT), 3)))
IMAGE = np.array([*range(6, 12), *range(6), 12])  # in a symmetric set; the last point is on the axis

# EVOLVE-BLOCK-START
START = 0  # tunable: 0..9999
STEP = 0.1  # tunable: 0.01..0.5
SHRINK = 0.5  # tunable: 0.1..0.8
NUM_MOVED = 1  # tunable: 1..4
NUM_DRAWS = 10  # tunable: 1..60
JITTER = 0.0  # tunable: 0.0..0.1
MIRRORED = 1  # tunable: 0..1
PATIENCE = 40  # tunable: 5..100
NUM_TRIALS = 200
MAX_PROGRAMS = 100


def construct():
    """Returns 13 points of the plane."""
    rng = np.random.default_rng(START)
    best = points = climb(draw(rng, COUNT), 1e-3)
    failures = 0
    for _ in range(NUM_TRIALS):
        trial = climb(move(points, rng), 1e-3)
        failures += 1
        if measure(trial) > measure(points):
            points, failures = trial, 0
        if failures > PATIENCE:
            points, failures = climb(draw(rng, COUNT), 1e-3), 0
        best = max(best, points, key=measure)
    return climb(best, 1e-9)


def move(points, rng):
    """Returns the points with some at new places, the best of several draws."""
    chosen = rng.choice(COUNT, NUM_MOVED, replace=False)
    drawn = []
    for _ in range(NUM_DRAWS):
        trial = points + JITTER * rng.standard_normal(points.shape)
        trial[chosen] = draw(rng, NUM_MOVED)
        if MIRRORED:
            trial[IMAGE[chosen]] = trial[chosen] * (-1, 1)
        drawn.append(repair(mirror(trial)))
    return max(drawn, key=measure)


def climb(points, precision):
    """Returns better points. Each linear program moves every coordinate by at most a step."""
    points = repair(mirror(points))
    step, score = STEP, measure(points)
    for _ in range(MAX_PROGRAMS):
        trial = repair(mirror(improve(points, step)))
        trial_score = measure(trial)
        step *= SHRINK if trial_score < score * (1 + step) else 1.0
        if trial_score > score:
            points, score = trial, trial_score
        if step < precision:
            break
    return points


def mirror(points):
    """Returns the mean of the points and their mirror images at the line x = 0."""
    return (points + points[IMAGE] * (-1, 1)) / 2 if MIRRORED else points


# EVOLVE-BLOCK-END


def draw(rng, count):
    """Returns uniform points of a disk of area 1."""
    radius, angle = np.sqrt(rng.random(count) / np.pi), 2 * np.pi * rng.random(count)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def measure(points):
    return np.abs(compute_areas(points)).min() / (2 * ConvexHull(points).volume)


def repair(points):
    """Returns the points, scaled to a convex hull of area 1 around the origin."""
    return (points - points.mean(axis=0)) / np.sqrt(ConvexHull(points).volume)


def improve(points, step):
    areas, slopes = compute_areas(points), compute_slopes(points)
    signs = np.where(areas < 0, -1.0, 1.0)
    hull = ConvexHull(points).vertices
    edge = points[np.roll(hull, -1)] - points[np.roll(hull, 1)]
    growth = np.zeros((COUNT, 2))
    growth[hull, 0], growth[hull, 1] = edge[:, 1] / 2, -edge[:, 0] / 2
    matrix = np.vstack([np.c_[-signs[:, None] * slopes, np.ones(len(areas))], np.r_[growth.ravel(), 0.0]])
    limits = np.r_[signs * areas, 0.0]
    bounds = [(-step, step)] * (2 * COUNT) + [(None, None)]
    result = linprog(np.r_[np.zeros(2 * COUNT), -1.0], A_ub=matrix, b_ub=limits, bounds=bounds, method="highs-ds")
    return points if result.x is None else points + result.x[:-1].reshape(COUNT, 2)


def compute_areas(points):
    """Returns twice the signed area of every triangle."""
    first, second, third = (points[TRIPLES[:, corner]] for corner in range(3))
    one, two = second - first, third - first
    return one[:, 0] * two[:, 1] - one[:, 1] * two[:, 0]


def compute_slopes(points):
    """Returns the derivative of each area by each coordinate."""
    slopes = np.zeros((len(TRIPLES), COUNT, 2))
    rows = np.arange(len(TRIPLES))
    for corner in range(3):
        after, before = points[TRIPLES[:, corner - 2]], points[TRIPLES[:, corner - 1]]
        slopes[rows, TRIPLES[:, corner], 0] = after[:, 1] - before[:, 1]
        slopes[rows, TRIPLES[:, corner], 1] = before[:, 0] - after[:, 0]
    return slopes.reshape(len(TRIPLES), 2 * COUNT)
