"""A sort in plain Python: insertion sort for short runs, then merges of growing width."""


# EVOLVE-BLOCK-START
def sort(values: list) -> list:
    """Returns the values in ascending order."""
    values = list(values)
    run = 2
    size = len(values)
    for start in range(0, size, run):
        for position in range(start + 1, min(start + run, size)):
            value = values[position]
            while position > start and values[position - 1] > value:
                values[position] = values[position - 1]
                position -= 1
            values[position] = value
    while run < size:
        for start in range(0, size, 2 * run):
            left, right = values[start : start + run], values[start + run : start + 2 * run]
            merged = []
            i = j = 0
            while i < len(left) and j < len(right):
                if left[i] <= right[j]:
                    merged.append(left[i])
                    i += 1
                else:
                    merged.append(right[j])
                    j += 1
            values[start : start + 2 * run] = merged + left[i:] + right[j:]
        run = 2 * run
    return values


# EVOLVE-BLOCK-END
