"""First fit for online bin packing."""

# EVOLVE-BLOCK-START
import numpy as np


def priority(item, bins):
    """Returns a score for each bin. The item goes to the bin with the highest score.

    Args:
        item: Size of the item, a float.
        bins: Array of the remaining capacities of the bins in which the item fits.
    """
    return -np.arange(len(bins), dtype=float)


# EVOLVE-BLOCK-END
