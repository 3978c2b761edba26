"""Moving average of three samples."""

# EVOLVE-BLOCK-START
import numpy as np


def denoise(signal):
    """Returns an estimate of the clean signal, an array of the same length."""
    result = np.empty(len(signal))
    for index in range(len(signal)):
        first = max(0, index - 1)
        result[index] = np.mean(signal[first : index + 2])
    return result


# EVOLVE-BLOCK-END
