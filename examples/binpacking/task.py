"""Find a rule that packs items into few bins as they arrive: each goes into the bin of the highest priority."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Returns how good each bin is for an item; the item goes into the bin with the highest number.

    Args:
        item: The size of the item.
        bins: The free space of each bin that the item fits into, an empty one among them.
    """
    return item - bins


class Instances(NamedTuple):
    """Lists of items in the order of their arrival."""

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
    """Returns minus the bins used beyond what the sizes alone demand, in per cent."""
    counts = num_bins(priority, instances)
    bounds = [-(-sum(items) // instances.capacity) for items in instances.items]
    return -100 * (sum(counts) / sum(bounds) - 1)


def num_bins(priority: Callable[[float, np.ndarray], np.ndarray], instances: Instances) -> list[int]:
    """Returns how many bins each list takes.

    A rule sees an item and free space, no more, so it is asked once per size, for all free spaces at once, and the
    packing itself looks up whose turn it is: a hundred calls instead of one for each of 25,000 items.
    """
    capacity = instances.capacity
    orders = {}
    for item in sorted({size for items in instances.items for size in items}):
        bins = np.arange(item, capacity + 1, dtype=float)
        urgency = np.broadcast_to(np.asarray(priority(float(item), bins), dtype=float), bins.shape)
        if np.isnan(urgency).any():
            raise ValueError(f"the priority of an item of {item} is no number")
        orders[item] = (np.argsort(-urgency, kind="stable") + item).tolist()
    return [_packed(items, orders, capacity) for items in instances.items]


def _packed(items: Sequence[int], orders: dict[int, list[int]], capacity: int) -> int:
    free = [0] * (capacity + 1)  # how many bins have this much space left
    free[capacity] = len(items)
    for item in items:
        for space in orders[item]:
            if free[space]:
                break
        free[space] -= 1
        free[space - item] += 1
    return len(items) - free[capacity]
