"""Bisection."""


# EVOLVE-BLOCK-START
def find_root(f, low, high):
    """Returns x with f(x) = 0 between low and high, where f changes from negative to positive.

    The error must be at most 1e-8. Each call of f costs one function value.
    """
    while high - low > 1e-9:
        middle = (low + high) / 2
        if f(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


# EVOLVE-BLOCK-END
