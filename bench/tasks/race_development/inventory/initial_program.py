"""Order up to a fixed level."""


# EVOLVE-BLOCK-START
def order(stock, coming, demands):
    """Returns how many units to order today.

    Args:
        stock: Units in the store; negative if customers wait.
        coming: List of two numbers, the units that arrive today and tomorrow.
        demands: List with the demand of each day so far, the latest last.
    """
    level = 80
    position = stock + sum(coming)
    if position < level:
        return level - position
    return 0


# EVOLVE-BLOCK-END
