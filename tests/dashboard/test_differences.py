"""Differences between texts that were made to take long."""

import difflib
from random import Random

from atoll.dashboard import text_limits


def walked(num_names: int, times: int, *strides: int) -> list[str]:
    """Returns names that come up so many times each; two walks of other strides share no pair of neighbours."""
    place, names = 0, []
    for number in range(num_names * times):
        names.append(f"name {place}")
        place = (place + strides[number % len(strides)]) % num_names
    return names


def spiteful(mark: str, *strides: int) -> list[str]:
    """Returns lines of which difflib finds each that is shared by a look at all of them: 17 s in all."""
    return [line for n in range(1000) for line in (f"shared {n}", f"{mark} {n}")] + walked(51, 39, *strides)


def test_texts_that_were_made_for_it_are_compared_as_far_as_they_may():
    found = text_limits.BoundedDiff(spiteful("old", 1, 3, 5), spiteful("new", 2, 4, 6, 14))
    blocks = found.get_matching_blocks()
    assert found.is_truncated
    assert 1 < len(blocks) < 100  # each of them was a look at thousands of lines
    lines, is_cut = text_limits.make_unified_diff(["a", "b"], ["a", "c"], "x", "y")
    assert lines == ["--- x", "+++ y", "@@ -1,2 +1,2 @@", " a", "-b", "+c"]
    assert not is_cut


def test_other_texts_are_compared_as_difflib_does():
    rng = Random(0)
    for size in (0, 1, 5, 300, 4000):
        old = [f"line {rng.randrange(max(1, size))}" for _ in range(size)]
        new = [line if rng.random() > 0.02 else f"other {rng.random()}" for line in old if rng.random() > 0.02]
        lines, is_cut = text_limits.make_unified_diff(old, new, "x", "y")
        assert lines == list(difflib.unified_diff(old, new, "x", "y", lineterm=""))
        assert not is_cut
