"""Random truth values."""

# EVOLVE-BLOCK-START
import random


def solve(num_variables, clauses):
    """Returns a list of truth values, one per variable.

    Args:
        num_variables: Number of variables; variable 1 is the first in the result.
        clauses: Tuples of three literals; 5 means that variable 5 is true, -5 that it is false.
    """
    rng = random.Random(0)
    return [rng.random() < 0.5 for _ in range(num_variables)]


# EVOLVE-BLOCK-END
