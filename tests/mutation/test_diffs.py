"""SEARCH/REPLACE blocks (P12): where they apply, and what is said of those that do not."""

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


def applied(program: str, *pairs: tuple[str, str]) -> diffs.EditResult:
    return mutation.apply_blocks(program, mutation.parse_blocks("\n".join(block(*pair) for pair in pairs)))


class TestBlocks:
    def test_they_are_found_in_their_order_between_prose_and_fences(self):
        reply = f"First:\n```\n{block('a', 'b')}```\nthen\n{block('c', '')}"
        assert mutation.parse_blocks(reply) == [("a\n", "b\n"), ("c\n", "\n")]

    def test_a_deletion_has_an_empty_part(self):
        assert mutation.parse_blocks("<<<<<<< SEARCH\na\n=======\n>>>>>>> REPLACE") == [("a\n", "")]

    def test_rows_of_other_lengths_indented_ones_and_windows_ends_count(self):
        reply = "  <<<<<<<< search\r\nx\r\n  =====\r\ny\r\n  >>>>> Replace\r\n"
        assert mutation.parse_blocks(reply) == [("x\n", "y\n")]

    @pytest.mark.parametrize(
        "reply",
        [
            "",
            "no diff",
            "<<<<<<< SEARCH\na\n=======\nb\n",
            "=======\n>>>>>>> REPLACE",
            "<<<<<<< SEARCH\na\n>>>>>>> REPLACE",
        ],
    )
    def test_what_does_not_end_is_none(self, reply):
        assert mutation.parse_blocks(reply) == []

    def test_a_block_that_begins_anew_forgets_the_old_beginning(self):
        assert mutation.parse_blocks("<<<<<<< SEARCH\nlost\n" + block("a", "b")) == [("a\n", "b\n")]

    def test_a_hostile_reply_takes_no_time(self):
        since = time.process_time()
        assert mutation.parse_blocks("<<<<<<< SEARCH\n=======\n" * 50_000) == []
        assert time.process_time() - since < 2


class TestApplying:
    def test_exact_lines_are_replaced(self):
        found = applied(PROGRAM, ("    total = 0", "    total = 1"), ("range(3)", "range(4)"))
        assert found.text == PROGRAM.replace("total = 0", "total = 1")
        assert found.num_applied == 1
        assert found.problems == ["block 2 (range(3)): its SEARCH part stands nowhere in the program"]

    def test_white_space_at_the_ends_does_not_count(self):
        found = applied(
            PROGRAM, ("    total = 0   \n    for step in range(3):\t\n", "    total = 9\n    for step in (1, 2):")
        )
        assert "    total = 9\n    for step in (1, 2):\n        total += radius" in found.text

    def test_a_block_that_is_indented_otherwise_is_shifted(self):
        found = applied(
            PROGRAM, ("for step in range(3):\n    total += radius", "for step in range(9):\n\n    total -= radius")
        )
        assert "    for step in range(9):\n\n        total -= radius\n    return" in found.text

    def test_a_block_that_is_indented_too_far_is_shifted_back(self):
        found = applied(PROGRAM, ("        total = 0\n        for step in range(3):", "        for step in range(9):"))
        assert "(radius):\n    for step in range(9):\n        total +=" in found.text

    def test_lines_that_shift_differently_do_not_match(self):
        found = applied(PROGRAM, ("for step in range(3):\ntotal += radius", "pass"))
        assert (found.text, found.num_applied) == (PROGRAM, 0)

    def test_what_stands_in_several_places_is_not_guessed(self):
        found = applied("a = 1\nb = 2\na = 1\n", ("a = 1", "a = 3"))
        assert found.text == "a = 1\nb = 2\na = 1\n"
        assert found.problems == [
            "block 1 (a = 1): its SEARCH part stands in 2 places, at lines 1, 3: search for more lines"
        ]

    def test_an_exact_place_wins_over_a_similar_one(self):
        found = applied("  x = 1\nx = 1\n", ("x = 1", "x = 2"))
        assert found.text == "  x = 1\nx = 2\n"

    def test_a_later_block_sees_what_an_earlier_one_wrote(self):
        assert applied("a\n", ("a", "b"), ("b", "c")).text == "c\n"

    def test_an_empty_search_is_said(self):
        assert applied("a\n", ("", "b")).problems == ["block 1 (empty): its SEARCH part is empty"]

    def test_a_long_line_is_cut_in_the_name_of_a_block(self):
        [problem] = applied("a\n", ("x" * 500, "b")).problems
        assert problem.startswith(f"block 1 ({'x' * 60} ...):")

    @given(st.lists(st.sampled_from(["a", " a", "b", "", "  b", "a "]), min_size=1, max_size=8), st.data())
    def test_a_line_that_stands_once_is_always_found(self, lines, data):
        place = data.draw(st.integers(0, len(lines) - 1))
        if lines[place].strip() and lines.count(lines[place]) == 1:
            expected = [*lines[:place], "NEW", *lines[place + 1 :]]
            found = applied("".join(f"{line}\n" for line in lines), (lines[place], "NEW"))
            assert found.text == "".join(f"{line}\n" for line in expected)

    @given(
        st.text(alphabet="ab \n\t", max_size=40),
        st.text(alphabet="ab \n", max_size=10),
        st.text(alphabet="ab\n", max_size=9),
    )
    def test_nothing_raises_and_what_did_not_apply_changed_nothing(self, program, search, replace):
        found = mutation.apply_blocks(program, [diffs.DiffBlock(search, replace)])
        assert found.num_applied + len(found.problems) == 1
        assert found.num_applied or found.text == program


class TestMarkers:
    PROGRAM = "x = 1\n# EVOLVE-BLOCK-START\nx = 1\ny = 2\n# EVOLVE-BLOCK-END\nz = 3\n"

    def test_outside_of_them_nothing_is_found(self):
        found = applied(self.PROGRAM, ("z = 3", "z = 4"))
        assert found.text == self.PROGRAM
        assert "outside of the EVOLVE-BLOCK markers" in found.problems[0]

    def test_of_two_places_the_one_between_them_is_meant(self):
        assert applied(self.PROGRAM, ("x = 1", "x = 5")).text == self.PROGRAM.replace("START\nx = 1", "START\nx = 5")

    def test_a_block_that_reaches_over_them_changes_only_what_stands_between(self):
        search = "x = 1\n# EVOLVE-BLOCK-START\nx = 1"
        found = applied(self.PROGRAM, (search, search.replace("1", "7")))
        assert found.text == self.PROGRAM.replace("START\nx = 1", "START\nx = 7")

    def test_a_replacement_that_adds_a_block_is_refused(self):
        trick = "# EVOLVE-BLOCK-END\nimport os\n# EVOLVE-BLOCK-START"
        with pytest.raises(ValueError, match="2 EVOLVE-BLOCKs and the program has 1"):
            applied(self.PROGRAM, ("y = 2", trick))

    @given(
        st.lists(
            st.tuples(st.sampled_from(["x = 1", "y = 2", "z = 3", "# EVOLVE-BLOCK-END"]), st.text("ab\n", max_size=5))
        )
    )
    def test_whatever_is_applied_the_rest_stays(self, pairs):
        try:
            text = applied(self.PROGRAM, *pairs).text
        except ValueError:
            return
        assert text.startswith("x = 1\n# EVOLVE-BLOCK-START\n")
        assert text.endswith("# EVOLVE-BLOCK-END\nz = 3\n")


class TestPatterns:
    def test_the_usual_one_is_read_by_lines(self):
        assert mutation.make_diff_parser(diffs.DEFAULT_PATTERN) is mutation.parse_blocks

    def test_one_of_ones_own_finds_its_blocks(self):
        read = mutation.make_diff_parser(r"@@@ OLD\s*\n(.*?)@@@ NEW\n(.*?)@@@ END")
        assert read("x @@@ OLD  \na\n@@@ NEW\nb\n@@@ END @@@ OLD\nc@@@ NEW\n@@@ END") == [("a\n", "b\n"), ("c", "")]

    @given(st.text(alphabet="<=>ab\n", max_size=60))
    def test_it_finds_what_the_expression_finds(self, reply):
        pattern = r"<+\n(.*?)=+\n(.*?)>"
        assert mutation.make_diff_parser(pattern)(reply) == re.findall(pattern, reply, re.S)

    @pytest.mark.parametrize("pattern", ["", "(.*?)", "A(.*?)B", "(.*?)=(.*?)>", "A(.*?)B(.*?)C(.*?)D"])
    def test_one_of_another_form_is_refused(self, pattern):
        with pytest.raises(errors.SetupError, match="write START"):
            mutation.make_diff_parser(pattern)

    @pytest.mark.parametrize("start", [r"(a+)+", r"(?:x*)*", "a|aa", r"(?=a)b", r"\s*\s*\s*\s*x", "a{1,}b*c+d{2,}"])
    def test_one_that_could_take_for_ever_is_refused(self, start):
        with pytest.raises(errors.SetupError, match="could take for ever"):
            mutation.make_diff_parser(f"{start}(.*?)B(.*?)C")

    def test_one_that_is_no_expression_is_refused(self):
        with pytest.raises(errors.SetupError, match="is no expression"):
            mutation.make_diff_parser(r"[a(.*?)B(.*?)C")

    def test_the_slowest_that_is_let_in_ends(self):
        since = time.process_time()
        assert mutation.make_diff_parser(r"\s*\s*\s*x(.*?)B(.*?)C")(" " * 5_000) == []
        assert time.process_time() - since < 5
