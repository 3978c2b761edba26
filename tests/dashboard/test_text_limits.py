"""Diffs of adversarial texts."""

import difflib
from random import Random

from atoll.dashboard import text_limits


def make_cycle(num_names: int, times: int, *strides: int) -> list[str]:
    """Returns repeated names in an order set by the strides."""
    position, names = 0, []
    for number in range(num_names * times):
        names.append(f"name {position}")
        position = (position + strides[number % len(strides)]) % num_names
    return names


def make_slow_lines(mark: str, *strides: int) -> list[str]:
    """Returns lines for which difflib takes 17 s."""
    return [line for n in range(1000) for line in (f"shared {n}", f"{mark} {n}")] + make_cycle(51, 39, *strides)


def test_diff_of_adversarial_texts_is_bounded():
    diff = text_limits.BoundedDiff(make_slow_lines("old", 1, 3, 5), make_slow_lines("new", 2, 4, 6, 14))
    blocks = diff.get_matching_blocks()
    assert diff.is_truncated
    assert 1 < len(blocks) < 100  # each match compares thousands of lines
    lines, is_truncated = text_limits.make_unified_diff(["a", "b"], ["a", "c"], "x", "y")
    assert lines == ["--- x", "+++ y", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    assert not is_truncated


def test_diff_equals_difflib():
    rng = Random(0)
    for size in (0, 1, 5, 300, 4000):
        old = [f"line {rng.randrange(max(1, size))}" for _ in range(size)]
        new = [line if rng.random() > 0.02 else f"other {rng.random()}" for line in old if rng.random() > 0.02]
        lines, is_truncated = text_limits.make_unified_diff(old, new, "x", "y")
        assert lines == list(difflib.unified_diff(old, new, "x", "y", lineterm=""))
        assert not is_truncated
