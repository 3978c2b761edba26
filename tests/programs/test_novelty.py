"""Novelty: programs too similar to known ones are not evaluated (P16)."""

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


class TestNoveltyFilter(testing.GateSuite):
    def make(self) -> gate.Gate:
        return NoveltyFilter()


class TestNoveltyFilterOnText(testing.GateSuite):
    def make(self) -> gate.Gate:
        return NoveltyFilter(is_python=False)


def decide(text: str, *known: str, **options) -> gate.Decision:
    others = tuple(Candidate(f"{index}.0", item) for index, item in enumerate(known or (PROGRAM,)))
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
def test_equivalent_programs_are_rejected(same):
    assert same != PROGRAM
    assert decide(same) == gate.Decision("reject", "it repeats 0.0 in other words", "novelty")


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
def test_small_change_of_behavior_is_accepted(other):
    assert decide(other).verdict == "accept"


def test_globals_and_names_visible_to_locals_are_compared():
    one = "def f():\n    a = 1\n    return locals()\n"
    assert decide(one.replace("a = 1", "b = 1"), one).verdict == "accept"
    one = "def f():\n    global a\n    a = 1\n"
    assert decide(one.replace("a", "b").replace("globbl", "global"), one).verdict == "accept"


def test_order_of_a_constant_set_is_ignored():
    one = "def f(x):\n    return x in {'a', 'b', 'c', 'd', 'e'}\n"
    assert decide(one.replace("'a', 'b'", "'b', 'a'"), one).verdict == "reject"


def test_names_in_closures_and_comprehensions_are_ignored():
    one = "def f(x):\n    a = x\n    def g():\n        return a + sum(b for b in range(3))\n    return g\n"
    assert decide(one.replace("a", "q").replace("rqnge", "range").replace("b", "c"), one).verdict == "reject"


def test_long_text_with_one_new_word_is_rejected():
    words = [f"word{index}x" for index in range(2000)]
    text = " ".join(words)
    decision = decide(text.replace("word7x", "WORD"), text, is_python=False, threshold=0.99)
    assert (decision.verdict, decision.reason) == ("reject", "it is 99.5% the same as 0.0")
    assert decide(text.replace("word7x", "WORD"), text, is_python=False).verdict == "accept"


def test_long_program_with_one_new_number_is_accepted():
    text = "\n".join(f"x{index} = {index}" for index in range(2000))
    assert decide(text.replace("x7 = 7\n", "x7 = 8\n"), text, threshold=0.9).verdict == "accept"


@pytest.mark.parametrize("text", ["", "def f(", "\x00", "x = " + "(" * 500, "'''", "  indented\nx", "é" * 10, "\ud800"])
def test_invalid_programs_are_compared_by_words(text):
    assert decide(text, "x = 1").verdict == "accept"
    assert decide(text, text).verdict == "reject"


@given(st.text(max_size=60), st.text(max_size=60))
def test_similarity_agrees_with_shingle_sets(one, other):
    def slow(text: str) -> set[tuple[str, ...]]:
        tokens = re.findall(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+|[^\w\s]", text)
        return {tuple(tokens[index : index + 5]) for index in range(max(1, len(tokens) - 4))}

    first, second = slow(one), slow(other)
    expected = len(first & second) / len(first | second)
    assert novelty.compute_similarity(one, other) == pytest.approx(expected)
