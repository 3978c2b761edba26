def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Returns the priority of each bin for an item. The item goes into the bin with the highest priority.

    Args:
        item: The size of the item.
        bins: The free space of each bin with room for the item, including an empty bin.
    """
    # Expected waste of a bin by its free space: zero if full, a plateau where no item fits, low where one item fits.
    first = 11.63  # tunable: 2.0..15.0
    plateau = 7.84  # tunable: 4.0..20.0
    rise = 1.68  # tunable: 0.3..6.0
    middle = 24.05  # tunable: 14.0..34.0
    softness = 5.1  # tunable: 0.5..8.0
    valley = 2.34  # tunable: 0.0..5.0
    hump = 2.08  # tunable: 0.0..8.0
    hump_place = 57.2  # tunable: 45.0..75.0
    hump_width = 6.95  # tunable: 2.0..20.0
    tail = 0.36  # tunable: -3.0..5.0

    def waste(space: np.ndarray) -> np.ndarray:
        narrow = (first + (plateau - first) * np.minimum(space / 20.0, 1.0)) * (1.0 - np.exp(-space / rise))
        wide = valley + hump * np.exp(-(((space - hump_place) / hump_width) ** 2)) + tail * (space > 70) * (100 - space) / 30
        mix = 1.0 / (1.0 + np.exp((space - middle) / softness))
        return np.where(space >= 100, 0.0, mix * narrow + (1.0 - mix) * wide)

    return waste(bins) - waste(bins - item)
