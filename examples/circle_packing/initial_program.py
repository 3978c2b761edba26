"""Equal circles on a grid."""


# EVOLVE-BLOCK-START
def pack(count: int) -> list[tuple[float, float, float]]:
    """Returns x, y and radius of each circle in the unit square."""
    columns = 4
    rows = -(-count // columns)
    circles = []
    for index in range(count):
        row, column = divmod(index, columns)
        x, y = (column + 0.5) / columns, (row + 0.5) / rows
        circles.append((x, y, 0.5 / max(columns, rows) * 0.9))
    return circles


# EVOLVE-BLOCK-END
