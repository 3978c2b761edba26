"""Rectangles."""


# EVOLVE-BLOCK-START
def integrate(f, low, high):
    """Returns an estimate of the integral of f from low to high.

    At most 9 calls of f are allowed.
    """
    count = 8
    width = (high - low) / count
    total = 0.0
    for index in range(count):
        total += f(low + index * width)
    return total * width


# EVOLVE-BLOCK-END
