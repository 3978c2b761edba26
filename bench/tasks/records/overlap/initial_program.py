"""A symmetric step function: linear programs lower its largest overlap, random bumps lead out of dead ends."""

import numpy as np
from scipy.optimize import linprog

# EVOLVE-BLOCK-START
START = 0  # tunable: 0..9999
NUM_STEPS = 40  # tunable: 10..160
STEP = 0.05  # tunable: 0.01..0.5
SHRINK = 0.5  # tunable: 0.1..0.8
HEIGHT = 0.15  # tunable: 0.01..0.5
WIDTH = 0.15  # tunable: 0.02..0.5
NUM_STARTS = 8  # tunable: 1..20
NUM_TRIALS = 80
MAX_PROGRAMS = 100


def construct():
    """Returns the heights of a function on equal steps."""
    rng = np.random.default_rng(START)
    heights = min((climb(draw(rng), 1e-3) for _ in range(NUM_STARTS)), key=measure)
    for _ in range(NUM_TRIALS):
        trial = climb(heights + HEIGHT * rng.standard_normal() * draw_bump(rng), 1e-4)
        heights = min(heights, trial, key=measure)
    return climb(heights, 1e-8)


def draw(rng):
    """Returns a hill with random waves."""
    places = np.linspace(-1, 1, NUM_STEPS)
    waves = sum(rng.standard_normal() * np.cos(n * np.pi * places) / np.sqrt(n) for n in range(1, 7))
    return np.exp(-((places / 0.5) ** 2)) + 0.3 * waves


def draw_bump(rng):
    """Returns two bumps at opposite random places."""
    distances = np.abs(np.linspace(-1, 1, NUM_STEPS))
    return np.exp(-(((distances - rng.random()) / (WIDTH * rng.uniform(0.2, 2.0))) ** 2))


def climb(heights, precision):
    """Returns better heights. Each linear program moves every height by at most a step."""
    heights = repair(heights)
    step, overlap = STEP, measure(heights)
    for _ in range(MAX_PROGRAMS):
        trial = repair(improve(heights, step))
        trial_overlap = measure(trial)
        step *= SHRINK if trial_overlap > overlap - 0.01 * step else 1.0
        if trial_overlap < overlap:
            heights, overlap = trial, trial_overlap
        if step < precision:
            break
    return heights


# EVOLVE-BLOCK-END


def measure(heights):
    return np.correlate(heights, 1 - heights, "full").max() * 2 / len(heights)


def repair(heights):
    """Returns symmetric heights from 0 to 1 with the mean 1/2."""
    heights = (heights + heights[::-1]) / 2
    low, high = -2.0 - np.abs(heights).max(), 2.0 + np.abs(heights).max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if np.clip(heights + middle, 0, 1).mean() < 0.5 else (low, middle)
    return 0.5 + (np.clip(heights + low, 0, 1) - 0.5) * (1 - 1e-12)


def improve(heights, step):
    """Returns symmetric heights whose overlap is lower by its slopes. Opposite shifts have the same overlap."""
    count, half = len(heights), (len(heights) + 1) // 2
    shifts = np.arange(count)[:, None]
    after, before = np.arange(count) + shifts, np.arange(count) - shifts
    padded = np.pad(heights, count)
    partners = np.where(after < count, 1 - padded[after + count], 0)
    slopes = partners - padded[before + count]
    both = np.eye(count)[:, :half]  # each change of the first half, on both sides
    both = np.maximum(both, both[::-1])
    matrix = np.c_[slopes @ both, -np.ones(count)]
    bounds = [*zip(np.maximum(-step, -heights[:half]), np.minimum(step, 1 - heights[:half]), strict=True), (None, None)]
    cost, equal = np.r_[np.zeros(half), 1.0], np.r_[both.sum(axis=0), 0.0][None]
    overlaps = partners @ heights
    result = linprog(cost, A_ub=matrix, b_ub=-overlaps, A_eq=equal, b_eq=[0.0], bounds=bounds, method="highs-ds")
    return heights if result.x is None else heights + both @ result.x[:-1]
