"""Most frequent pairs of characters."""

# EVOLVE-BLOCK-START
from collections import Counter


def build_vocabulary(text, size):
    """Returns at most `size` strings of two or more characters that are frequent in the text."""
    counts = Counter(text[index : index + 2] for index in range(len(text) - 1))
    return [token for token, count in counts.most_common(size)]


# EVOLVE-BLOCK-END
