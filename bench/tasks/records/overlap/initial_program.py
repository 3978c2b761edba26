"""A step function with little overlap: linear programs lower the largest overlap from a random start."""

import numpy as np
from scipy.optimize import linprog

# EVOLVE-BLOCK-START
START = 0  # tunable: 0..9999
NUM_STEPS = 24  # tunable: 10..80
STEP = 0.1  # tunable: 0.01..0.5
SHRINK = 0.5  # tunable: 0.1..0.8
JITTER = 0.1  # tunable: 0.01..1.0
WIDTH = 0.5  # tunable: 0.2..1.0
NUM_TRIALS = 3
MAX_PROGRAMS = 100


def construct():
    """Returns the heights of a function on equal steps."""
    rng = np.random.default_rng(START)
    places = np.linspace(-1, 1, NUM_STEPS)
    heights = climb(np.exp(-((places / WIDTH) ** 2)) + JITTER * rng.standard_normal(NUM_STEPS))
    for _ in range(NUM_TRIALS):
        trial = climb(heights + JITTER * rng.standard_normal(NUM_STEPS))
        if measure(trial) < measure(heights):
            heights = trial
    return heights


def climb(heights):
    """Returns better heights. Each linear program moves every height by at most a step."""
    heights = repair(heights)
    step, overlap = STEP, measure(heights)
    for _ in range(MAX_PROGRAMS):
        trial = repair(improve(heights, step))
        trial_overlap = measure(trial)
        step *= SHRINK if trial_overlap > overlap - 0.01 * step else 1.0
        if trial_overlap < overlap:
            heights, overlap = trial, trial_overlap
        if step < 1e-7:
            break
    return heights


# EVOLVE-BLOCK-END


def measure(heights):
    return np.correlate(heights, 1 - heights, "full").max() * 2 / len(heights)


def repair(heights):
    """Returns heights from 0 to 1 with the mean 1/2."""
    low, high = -2.0 - np.abs(heights).max(), 2.0 + np.abs(heights).max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(heights + middle, 0, 1).mean() < 0.5 else (low, middle)
    return 0.5 + (np.clip(heights + low, 0, 1) - 0.5) * (1 - 1e-12)


def improve(heights, step):
    count = len(heights)
    shifts = np.arange(1 - count, count)[:, None]
    after, before = np.arange(count) + shifts, np.arange(count) - shifts
    padded = np.pad(heights, count)
    is_inside = (after >= 0) & (after < count)
    overlaps = (heights * np.where(is_inside, 1 - padded[after + count], 0)).sum(axis=1)
    slopes = np.where(is_inside, 1 - padded[after + count], 0) - padded[before + count]
    matrix = np.c_[slopes, -np.ones(len(shifts))]
    bounds = [*zip(np.maximum(-step, -heights), np.minimum(step, 1 - heights), strict=True), (None, None)]
    equal = np.r_[np.ones(count), 0.0][None]
    cost = np.r_[np.zeros(count), 1.0]
    result = linprog(cost, A_ub=matrix, b_ub=-overlaps, A_eq=equal, b_eq=[0.0], bounds=bounds, method="highs-ds")
    return heights if result.x is None else heights + result.x[:-1]
