"""SEARCH/REPLACE blocks (P12): parsing, application, and problems of blocks that do not apply."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import errors, mutation
from atoll.mutation import diffs

PROGRAM = """import math

def area(radius):
    total = 0
    for step in range(3):
        total += radius
    return total
"""


def block(search: str, replace: str) -> str:
    return f"<<<<<<< SEARCH\n{search}\n=======\n{replace}\n>>>>>>> REPLACE\n"


def apply(program: str, *pairs: tuple[str, str]) -> diffs.EditResult:
    return mutation.apply_blocks(program, mutation.parse_blocks("\n".join(block(*pair) for pair in pairs)))


class TestParseBlocks:
    def test_parse_blocks_returns_blocks_in_order(self):
        response = f"First:\n```\n{block('a', 'b')}```\nthen\n{block('c', '')}"
        assert mutation.parse_blocks(response) == [("a\n", "b\n"), ("c\n", "\n")]

    def test_parse_blocks_accepts_deletion(self):
        assert mutation.parse_blocks("<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE") == [("a\n", "")]

    def test_parse_blocks_accepts_other_delimiter_forms(self):
        response = "  <<<<<<<< search\r\nx\r\n  =====\r\ny\r\n  >>>>> Replace\r\n"
        assert mutation.parse_blocks(response) == [("x\n", "y\n")]

    @pytest.mark.parametrize(
        "response",
        [
            "",
            "no diff",
            "<<<<<<< SEARCH\na\n=======\nb\n",
            "=======\n>>>>>>> REPLACE",
            "<<<<<<< SEARCH\na\n>>>>>>> REPLACE",
        ],
    )
    def test_parse_blocks_ignores_incomplete_blocks(self, response):
        assert mutation.parse_blocks(response) == []

    def test_second_start_discards_first(self):
        assert mutation.parse_blocks("<<<<<<< SEARCH\nlost\n" + block("a", "b")) == [("a\n", "b\n")]

    def test_parse_blocks_is_fast_on_hostile_response(self):
        start = time.process_time()
        assert mutation.parse_blocks("<<<<<<< SEARCH\n=======\n" * 50_000) == []
        assert time.process_time() - start < 2


class TestApplyBlocks:
    def test_apply_replaces_exact_lines(self):
        result = apply(PROGRAM, ("    total = 0", "    total = 1"), ("range(3)", "range(4)"))
        assert result.text == PROGRAM.replace("total = 0", "total = 1")
        assert result.num_applied == 1
        assert result.problems == ["block 2 (range(3)): its SEARCH block is not in the program"]

    def test_apply_ignores_trailing_white_space(self):
        result = apply(
            PROGRAM, ("    total = 0   \n    for step in range(3):\t\n", "    total = 9\n    for step in (1, 2):")
        )
        assert "    total = 9\n    for step in (1, 2):\n        total += radius" in result.text

    def test_apply_indents_block(self):
        result = apply(
            PROGRAM, ("for step in range(3):\n    total += radius", "for step in range(9):\n\n    total -= radius")
        )
        assert "    for step in range(9):\n\n        total -= radius\n    return" in result.text

    def test_apply_outdents_block(self):
        result = apply(PROGRAM, ("        total = 0\n        for step in range(3):", "        for step in range(9):"))
        assert "(radius):\n    for step in range(9):\n        total +=" in result.text

    def test_apply_ignores_indentation_blank_lines_spacing_and_quotes(self):
        result = apply(PROGRAM, ("for step in range(3):\n\ntotal+=radius  # add", "pass"))
        assert result.text.endswith("total = 0\n    pass\n    return total\n")
        assert result.notes == ["block 1: spacing, quotes or comments differ"]

    def test_apply_accepts_nearly_equal_lines(self):
        result = apply(
            PROGRAM, ("    for steps in range(3):\n        total += radius\n    return total", "    return 3")
        )
        assert result.text.endswith("    total = 0\n    return 3\n")

    def test_problem_quotes_nearest_lines(self):
        [problem] = apply(
            PROGRAM, ("    total = 0\n    for i in range(33):\n        total -= 2 * radius", "x")
        ).problems
        assert "not in the program; the nearest lines are\n4:     total = 0\n5:     for step" in problem

    def test_first_of_several_exact_matches_after_last_edit_changes(self):
        program = "a = 1\nb = 2\na = 1\n"
        result = apply(program, ("a = 1", "a = 3"))
        assert result.text == "a = 3\nb = 2\na = 1\n"
        assert result.notes == ["block 1: its SEARCH block matches 2 places; the first one changed"]
        assert apply(program, ("b = 2", "b = 4"), ("a = 1", "a = 3")).text == "a = 1\nb = 4\na = 3\n"

    def test_apply_rejects_ambiguous_tolerant_match(self):
        result = apply("  a = 1\nb = 2\n  a = 1\n", ("a = 1", "a = 3"))
        assert result.problems == ["block 1 (a = 1): its SEARCH block matches 2 places, at lines 1, 3; add more lines"]

    def test_apply_prefers_exact_match(self):
        result = apply("  x = 1\nx = 1\n", ("x = 1", "x = 2"))
        assert result.text == "  x = 1\nx = 2\n"

    def test_later_block_sees_earlier_change(self):
        assert apply("a\n", ("a", "b"), ("b", "c")).text == "c\n"

    def test_empty_search_adds_lines(self):
        assert apply("a\n", ("", "b")).text == "a\nb\n"
        assert apply(TestMarkers.PROGRAM, ("", "b = 1")).text.endswith("y = 2\nb = 1\n# EVOLVE-BLOCK-END\nz = 3\n")

    def test_problem_shortens_long_line(self):
        [problem] = apply("a\n", ("x" * 500, "b")).problems
        assert problem.startswith(f"block 1 ({'x' * 60} ...):")

    @given(st.lists(st.sampled_from(["a", " a", "b", "", "  b", "a "]), min_size=1, max_size=8), st.data())
    def test_unique_line_is_always_replaced(self, lines, data):
        index = data.draw(st.integers(0, len(lines) - 1))
        if lines[index].strip() and lines.count(lines[index]) == 1:
            expected = [*lines[:index], "NEW", *lines[index + 1 :]]
            result = apply("".join(f"{line}\n" for line in lines), (lines[index], "NEW"))
            assert result.text == "".join(f"{line}\n" for line in expected)

    @given(
        st.text(alphabet="ab \n\t", max_size=40),
        st.text(alphabet="ab \n", max_size=10),
        st.text(alphabet="ab\n", max_size=9),
    )
    def test_apply_never_raises_and_failed_block_changes_nothing(self, program, search, replace):
        result = mutation.apply_blocks(program, [diffs.DiffBlock(search, replace)])
        assert result.num_applied + len(result.problems) == 1
        assert result.num_applied or result.text == program


class TestMarkers:
    PROGRAM = "x = 1\n# EVOLVE-BLOCK-START\nx = 1\ny = 2\n# EVOLVE-BLOCK-END\nz = 3\n"

    def test_apply_rejects_block_outside_of_markers(self):
        result = apply(self.PROGRAM, ("z = 3", "z = 4"))
        assert result.text == self.PROGRAM
        assert "outside of the EVOLVE-BLOCK markers" in result.problems[0]

    def test_apply_prefers_match_between_markers(self):
        assert apply(self.PROGRAM, ("x = 1", "x = 5")).text == self.PROGRAM.replace("START\nx = 1", "START\nx = 5")

    def test_block_across_marker_changes_only_inside(self):
        search = "x = 1\n# EVOLVE-BLOCK-START\nx = 1"
        response = block(search, search.replace("1", "7"))
        program = mutation.ResponseReader().read(self.PROGRAM, response)
        assert program.text == self.PROGRAM.replace("START\nx = 1", "START\nx = 7")

    def test_added_markers_do_not_unlock_fixed_code(self):
        trick = "# EVOLVE-BLOCK-END\nimport os\nz = 9\n# EVOLVE-BLOCK-START"
        program = mutation.ResponseReader().read(self.PROGRAM, block("y = 2", trick))
        assert program.text == "x = 1\n# EVOLVE-BLOCK-START\nimport os\n# EVOLVE-BLOCK-END\nz = 3\n"

    @given(
        st.lists(
            st.tuples(st.sampled_from(["x = 1", "y = 2", "z = 3", "# EVOLVE-BLOCK-END"]), st.text("ab\n", max_size=5))
        )
    )
    def test_edits_keep_text_outside_of_markers(self, pairs):
        response = "\n".join(block(*pair) for pair in pairs)
        try:
            text = mutation.ResponseReader("c").read(self.PROGRAM, response).text
        except mutation.UnusableResponse:
            return
        assert text.startswith("x = 1\n# EVOLVE-BLOCK-START\n")
        assert text.endswith("# EVOLVE-BLOCK-END\nz = 3\n")


class TestPatterns:
    def test_default_pattern_uses_parse_blocks(self):
        assert mutation.make_diff_parser(diffs.DEFAULT_PATTERN) is mutation.parse_blocks

    def test_custom_pattern_finds_blocks(self):
        parse = mutation.make_diff_parser(r"@@@ OLD\s*\n(.*?)@@@ NEW\n(.*?)@@@ END")
        assert parse("x @@@ OLD  \na\n@@@ NEW\nb\n@@@ END @@@ OLD\nc@@@ NEW\n@@@ END") == [("a\n", "b\n"), ("c", "")]

    @given(st.text(alphabet="<=>ab\n", max_size=60))
    def test_custom_pattern_matches_like_re(self, response):
        pattern = r"<+\n(.*?)=+\n(.*?)>"
        assert mutation.make_diff_parser(pattern)(response) == re.findall(pattern, response, re.S)

    @pytest.mark.parametrize("pattern", ["", "(.*?)", "A(.*?)B", "(.*?)=(.*?)>", "A(.*?)B(.*?)C(.*?)D"])
    def test_pattern_needs_three_delimiters(self, pattern):
        with pytest.raises(errors.SetupError, match="Write START"):
            mutation.make_diff_parser(pattern)

    @pytest.mark.parametrize("start", [r"(a+)+", r"(?:x*)*", "a|aa", r"(?=a)b", r"\s*\s*\s*\s*x", "a{1,}b*c+d{2,}"])
    def test_slow_pattern_is_rejected(self, start):
        with pytest.raises(errors.SetupError, match="could take very long"):
            mutation.make_diff_parser(f"{start}(.*?)B(.*?)C")

    def test_invalid_pattern_is_rejected(self):
        with pytest.raises(errors.SetupError, match="diff pattern is not valid"):
            mutation.make_diff_parser(r"[a(.*?)B(.*?)C")

    def test_slowest_accepted_pattern_is_fast(self):
        start = time.process_time()
        assert mutation.make_diff_parser(r"\s*\s*\s*x(.*?)B(.*?)C")(" " * 5_000) == []
        assert time.process_time() - start < 5
