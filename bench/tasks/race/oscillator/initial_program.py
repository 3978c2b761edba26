"""Linear law of an oscillator."""

# EVOLVE-BLOCK-START
import numpy as np


def equation(x, v, params):
    """Returns the acceleration of a damped nonlinear oscillator.

    Args:
        x: Array of positions.
        v: Array of velocities.
        params: Array of 10 constants, which are fitted to data.
    """
    return params[0] * x + params[1] * v + params[2] * np.ones_like(x)


# EVOLVE-BLOCK-END
