"""Most valuable items first."""


# EVOLVE-BLOCK-START
def pack(values, weights, limits):
    """Returns the indices of the items to take.

    Args:
        values: List of the values of the items.
        weights: One list per item with its weight for each limit.
        limits: List of the largest total weights.
    """
    left = list(limits)
    chosen = []
    for item in sorted(range(len(values)), key=lambda item: -values[item]):
        rest = [left[k] - weights[item][k] for k in range(len(left))]
        if min(rest) >= 0:
            chosen.append(item)
            left = rest
    return chosen


# EVOLVE-BLOCK-END
