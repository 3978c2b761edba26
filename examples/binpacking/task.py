"""Find a rule for online bin packing: each item goes into the bin with the highest priority."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Returns the priority of each bin for an item. The item goes into the bin with the highest priority.

    Args:
        item: The size of the item.
        bins: The free space of each bin with room for the item, including an empty bin.
    """
    return item - bins


class Instances(NamedTuple):
    """Lists of items in order of arrival."""

    capacity: int
    items: Sequence[Sequence[int]]


def weibull(seed: int = 0, count: int = 5, num_items: int = 5000) -> list[Instances]:
    """Returns generated training instances: capacity 100, sizes Weibull(45, 3), rounded, 1 to 100."""
    rng = np.random.default_rng(seed)
    items = np.clip(np.round(45 * rng.weibull(3, (count, num_items))), 1, 100).astype(int)
    return [Instances(100, items.tolist())]


def uniform(seed: int = 0, count: int = 20, num_items: int = 120) -> list[Instances]:
    """Returns generated training instances like those of the OR-Library: capacity 150, sizes 20 to 100."""
    rng = np.random.default_rng(seed)
    return [Instances(150, rng.integers(20, 101, (count, num_items)).tolist())]


def evaluate(priority: Callable[[float, np.ndarray], np.ndarray], instances: Instances) -> float:
    """Returns the negative excess of bins over the lower bound by total size, in percent."""
    counts = num_bins(priority, instances)
    bounds = [-(-sum(items) // instances.capacity) for items in instances.items]
    return -100 * (sum(counts) / sum(bounds) - 1)


def num_bins(priority: Callable[[float, np.ndarray], np.ndarray], instances: Instances) -> list[int]:
    """Returns the number of bins for each list.

    A rule sees only the item and the free space. So it is called once per size for all free spaces, and the packing
    looks up the order. That is a hundred calls instead of 25,000.
    """
    capacity = instances.capacity
    orders = {}
    for item in sorted({size for items in instances.items for size in items}):
        bins = np.arange(item, capacity + 1, dtype=float)
        priorities = np.broadcast_to(np.asarray(priority(float(item), bins), dtype=float), bins.shape)
        if np.isnan(priorities).any():
            raise ValueError(f"the priority of an item of size {item} is not a number")
        orders[item] = (np.argsort(-priorities, kind="stable") + item).tolist()
    return [_count_bins(items, orders, capacity) for items in instances.items]


def _count_bins(items: Sequence[int], orders: dict[int, list[int]], capacity: int) -> int:
    free = [0] * (capacity + 1)  # number of bins by free space
    free[capacity] = len(items)
    for item in items:
        for space in orders[item]:
            if free[space]:
                break
        free[space] -= 1
        free[space - item] += 1
    return len(items) - free[capacity]
