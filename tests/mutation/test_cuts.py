"""cut_middle."""

from hypothesis import given
from hypothesis import strategies as st

from atoll.mutation.text_blocks import CUT_MARKER, cut_middle


@given(st.text(max_size=200), st.integers(0, 200))
def test_cut_middle_limits_length_and_keeps_both_ends(text, size):
    cut = cut_middle(text, size)
    assert len(cut) <= max(size, 0) or cut == ""
    if len(text) > size and cut:
        first, last = cut.split(CUT_MARKER, 1) if cut.count(CUT_MARKER) == 1 else (cut[:1], cut[-1:])
        assert text.startswith(first)
        assert text.endswith(last)
