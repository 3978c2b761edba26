"""Size limit of prompts: the lowest priority is cut first (P10)."""

from hypothesis import given
from hypothesis import strategies as st

from atoll.programs.prompt.sections import PromptPart, PromptSection, fit_to_limit


def assemble(texts) -> str:
    return "|".join(text for name in sorted(texts) for text in texts[name])


def test_prompt_that_fits_is_unchanged():
    assert fit_to_limit([PromptSection("a", [PromptPart("x" * 10)], 1)], assemble, 10) == ("x" * 10, [])


def test_last_part_of_lowest_priority_is_removed_first():
    sections = [
        PromptSection("a", [PromptPart("A" * 50), PromptPart("B" * 50)], 1),
        PromptSection("z", [PromptPart("Z" * 50)], 2),
    ]
    assert fit_to_limit(sections, assemble, 110) == (f"{'A' * 50}|{'Z' * 50}", ["a 2 left out"])
    assert fit_to_limit(sections, assemble, 60) == ("Z" * 50, ["a 2 left out", "a 1 left out"])


def test_long_text_is_cut_in_the_middle_before_removal():
    text, cut = fit_to_limit([PromptSection("a", [PromptPart("x" * 500 + "y" * 500)], 1)], assemble, 400)
    assert text.startswith("x" * 190)
    assert text.endswith("y" * 190)
    assert (len(text) <= 400, cut) == (True, ["a 1 in part"])


def test_indivisible_part_is_removed_and_never_cut():
    text, cut = fit_to_limit(
        [PromptSection("a", [PromptPart("x" * 1000, is_indivisible=True), PromptPart("y" * 9)], 1)], assemble, 400
    )
    assert (text, cut) == ("", ["a 2 left out", "a 1 left out"])


SIZES = st.lists(st.tuples(st.integers(0, 2000), st.booleans()), max_size=4)


@given(st.lists(SIZES, max_size=5), st.integers(0, 3000))
def test_result_fits_and_respects_priorities(sizes, limit):
    sections = [
        PromptSection(
            str(index), [PromptPart("x" * size, is_indivisible=indivisible) for size, indivisible in parts], index
        )
        for index, parts in enumerate(sizes)
    ]
    text, cut = fit_to_limit(sections, lambda texts: "".join(map("".join, texts.values())), limit)
    assert len(text) <= limit
    touched = {int(item.split()[0]) for item in cut}
    for index in touched:  # all lower priorities are removed completely
        below = [item for item in range(index) if sizes[item]]
        assert all(f"{item} 1 left out" in cut for item in below)
