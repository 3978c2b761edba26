"""Equal circles on a grid."""

# EVOLVE-BLOCK-START
import numpy as np


def pack(count):
    """Returns an array of shape (count, 3) with x, y and radius of circles in the unit square."""
    columns = 4
    rows = -(-count // columns)
    circles = []
    for index in range(count):
        row, column = divmod(index, columns)
        x, y = (column + 0.5) / columns, (row + 0.5) / rows
        circles.append((x, y, 0.5 / max(columns, rows) * 0.9))
    return np.array(circles)


# EVOLVE-BLOCK-END
