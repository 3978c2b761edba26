"""What is too like its kin is not judged (P16)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import gate, testing
from atoll.candidate import Candidate
from atoll.programs.population import novelty
from atoll.programs.population.novelty import NoveltyFilter

PROGRAM = '''"""Doc."""
import math

def f(x, y=2):
    """Adds."""
    total = x
    for step in range(3):
        total += step * y  # twice
    return math.sqrt(total)
'''


class TestNovel(testing.GateSuite):
    def make(self) -> gate.Gate:
        return NoveltyFilter()


class TestNovelText(testing.GateSuite):
    def make(self) -> gate.Gate:
        return NoveltyFilter(is_python=False)


def decided(text: str, *kin: str, **options) -> gate.Decision:
    others = tuple(Candidate(f"{place}.0", each) for place, each in enumerate(kin or (PROGRAM,)))
    return NoveltyFilter(**options)(gate.Proposal(Candidate("9.0", text), None, (), others))


@pytest.mark.parametrize(
    "same",
    [
        PROGRAM.replace("  # twice", ""),
        PROGRAM.replace('"""Adds."""', '"""Something else."""'),
        PROGRAM.replace("total", "result").replace("step", "i"),
        PROGRAM.replace("total = x", "total = (x)").replace("step * y", "step*y"),
        PROGRAM.replace("\n\ndef", "\n\n\n\ndef"),
    ],
)
def test_other_words_for_the_same_program_are_rejected(same):
    assert same != PROGRAM
    assert decided(same) == gate.Decision("reject", "it repeats 0.0 in other words", "novelty")


@pytest.mark.parametrize(
    "other",
    [
        PROGRAM.replace("3", "4"),
        PROGRAM.replace("+=", "-="),
        PROGRAM.replace("def f", "def g"),
        PROGRAM.replace("y", "z"),
        PROGRAM.replace("sqrt", "exp"),
        PROGRAM.replace("total += step", "total += total"),
    ],
)
def test_a_small_change_of_what_it_does_is_new(other):
    assert decided(other).verdict == "accept"


def test_names_that_somebody_may_read_are_kept():
    one = "def f():\n    a = 1\n    return locals()\n"
    assert decided(one.replace("a = 1", "b = 1"), one).verdict == "accept"
    one = "def f():\n    global a\n    a = 1\n"
    assert decided(one.replace("a", "b").replace("globbl", "global"), one).verdict == "accept"


def test_a_set_of_constants_has_no_order():
    one = "def f(x):\n    return x in {'a', 'b', 'c', 'd', 'e'}\n"
    assert decided(one.replace("'a', 'b'", "'b', 'a'"), one).verdict == "reject"


def test_a_closure_and_a_comprehension_hide_their_names_too():
    one = "def f(x):\n    a = x\n    def g():\n        return a + sum(b for b in range(3))\n    return g\n"
    assert decided(one.replace("a", "q").replace("rqnge", "range").replace("b", "c"), one).verdict == "reject"


def test_a_long_text_with_one_other_word_is_too_like_it():
    words = [f"word{place}x" for place in range(2000)]
    text = " ".join(words)
    decision = decided(text.replace("word7x", "WORD"), text, is_python=False, threshold=0.99)
    assert (decision.verdict, decision.reason) == ("reject", "it is 99.5% the same as 0.0")
    assert decided(text.replace("word7x", "WORD"), text, is_python=False).verdict == "accept"


def test_a_long_program_with_one_other_number_is_new():
    text = "\n".join(f"x{place} = {place}" for place in range(2000))
    assert decided(text.replace("x7 = 7\n", "x7 = 8\n"), text, threshold=0.9).verdict == "accept"


@pytest.mark.parametrize("text", ["", "def f(", "\x00", "x = " + "(" * 500, "'''", "  indented\nx", "é" * 10, "\ud800"])
def test_what_is_no_program_is_compared_by_its_words(text):
    assert decided(text, "x = 1").verdict == "accept"
    assert decided(text, text).verdict == "reject"


@given(st.text(max_size=60), st.text(max_size=60))
def test_similarity_is_what_sets_of_shingles_say(one, other):
    def slow(text: str) -> set[tuple[str, ...]]:
        tokens = re.findall(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+|[^\w\s]", text)
        return {tuple(tokens[place : place + 5]) for place in range(max(1, len(tokens) - 4))}

    first, second = slow(one), slow(other)
    expected = len(first & second) / len(first | second)
    assert novelty.compute_similarity(one, other) == pytest.approx(expected)
