"""Force proportional to the distance."""


# EVOLVE-BLOCK-START
def control(target, position, speed, total):
    """Returns the force on a mass that is to reach the target and to stay there.

    Args:
        target: Where the mass should be.
        position: Where it is, with noise.
        speed: Its speed, with noise.
        total: Sum of (target - position) * 0.05 over all steps so far.
    """
    error = target - position
    force = 1.0 * error
    if force > 5.0:
        force = 5.0
    if force < -5.0:
        force = -5.0
    return force


# EVOLVE-BLOCK-END
