"""What is too much is cut from the least (P10)."""

from hypothesis import given
from hypothesis import strategies as st

from atoll.programs.prompt.token_limit import PromptPart, PromptSection, fit_to_limit


def assemble(texts) -> str:
    return "|".join(text for name in sorted(texts) for text in texts[name])


def test_what_fits_is_left_alone():
    assert fit_to_limit([PromptSection("a", [PromptPart("x" * 10)], 1)], assemble, 10) == ("x" * 10, [])


def test_the_least_goes_first_its_last_part_before_the_others():
    pieces = [
        PromptSection("a", [PromptPart("A" * 50), PromptPart("B" * 50)], 1),
        PromptSection("z", [PromptPart("Z" * 50)], 2),
    ]
    assert fit_to_limit(pieces, assemble, 110) == (f"{'A' * 50}|{'Z' * 50}", ["a 2 left out"])
    assert fit_to_limit(pieces, assemble, 60) == ("Z" * 50, ["a 2 left out", "a 1 left out"])


def test_a_long_text_is_cut_in_the_middle_before_it_goes():
    text, cut = fit_to_limit([PromptSection("a", [PromptPart("x" * 500 + "y" * 500)], 1)], assemble, 400)
    assert text.startswith("x" * 190)
    assert text.endswith("y" * 190)
    assert (len(text) <= 400, cut) == (True, ["a 1 in part"])


def test_half_a_program_is_worth_nothing():
    text, cut = fit_to_limit(
        [PromptSection("a", [PromptPart("x" * 1000, is_indivisible=True), PromptPart("y" * 9)], 1)], assemble, 400
    )
    assert (text, cut) == ("", ["a 2 left out", "a 1 left out"])


SIZES = st.lists(st.tuples(st.integers(0, 2000), st.booleans()), max_size=4)


@given(st.lists(SIZES, max_size=5), st.integers(0, 3000))
def test_whatever_the_sizes_it_fits_and_priorities_are_kept(sizes, limit):
    pieces = [
        PromptSection(str(place), [PromptPart("x" * size, is_indivisible=whole) for size, whole in parts], place)
        for place, parts in enumerate(sizes)
    ]
    text, cut = fit_to_limit(pieces, lambda texts: "".join(map("".join, texts.values())), limit)
    assert len(text) <= limit
    touched = {int(each.split()[0]) for each in cut}
    for place in touched:  # all below the highest that was touched have nothing left to give
        below = [each for each in range(place) if sizes[each]]
        assert all(f"{each} 1 left out" in cut for each in below)
