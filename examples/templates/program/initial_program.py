"""Sorts parcels into as few boxes as possible."""


# EVOLVE-BLOCK-START
# Only the lines between the markers evolve. Without markers, the whole file evolves.
def pack(sizes: list[float]) -> list[int]:
    """Returns the number of the box of each parcel. A box holds a total size of 1."""
    boxes: list[float] = []
    numbers = []
    for size in sizes:
        if not boxes or boxes[-1] + size > 1.0:
            boxes.append(0.0)
        boxes[-1] += size
        numbers.append(len(boxes) - 1)
    return numbers


# EVOLVE-BLOCK-END
