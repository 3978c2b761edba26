"""Depots at the towns with the most people."""

# EVOLVE-BLOCK-START
import numpy as np


def choose(points, people, count):
    """Returns the indices of `count` towns that get a depot.

    Args:
        points: Array of shape (n, 2), the places of the towns.
        people: Array of n numbers of people.
        count: How many depots there are.
    """
    order = np.argsort(-people)
    chosen = []
    for town in order[:count]:
        chosen.append(int(town))
    return chosen


# EVOLVE-BLOCK-END
