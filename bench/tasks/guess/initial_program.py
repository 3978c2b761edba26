"""Guesses a number that it is not told."""

# EVOLVE-BLOCK-START
NUMBER = 0
GUESS = 0.5


def guess() -> float:
    """Returns a number between 0 and 1."""
    return GUESS


# EVOLVE-BLOCK-END
