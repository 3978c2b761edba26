"""Jobs by total time."""


# EVOLVE-BLOCK-START
def schedule(times):
    """Returns the order of the jobs, a permutation of range(len(times)).

    Args:
        times: One list per job with its processing time on each machine.
    """
    totals = [sum(row) for row in times]
    return sorted(range(len(times)), key=lambda job: totals[job])


# EVOLVE-BLOCK-END
