"""Says where a swing is that was let go; how fast it comes to rest is a guess."""

import math

# EVOLVE-BLOCK-START
DECAY = 0.5


def position(seconds: float) -> float:
    """Returns how far out the swing is, from -1 to 1."""
    width = math.exp(-DECAY * seconds)
    return width * math.cos(2.0 * math.pi * seconds)


# EVOLVE-BLOCK-END


def path(num_steps: int, step_seconds: float) -> list[float]:
    """Returns the positions after each of so many steps."""
    return [position(step * step_seconds) for step in range(num_steps)]
