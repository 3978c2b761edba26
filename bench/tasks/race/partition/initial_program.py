"""Numbers dealt out in turn."""


# EVOLVE-BLOCK-START
def split(numbers, num_groups):
    """Returns the group of each number, from 0 to num_groups - 1. The sums of the groups should be equal."""
    groups = []
    for index in range(len(numbers)):
        groups.append(index % num_groups)
    return groups


# EVOLVE-BLOCK-END
