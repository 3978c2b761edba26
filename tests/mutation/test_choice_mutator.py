"""ChoiceMutator: words from lists in a program."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import evaluation, function
from atoll.candidate import Candidate
from atoll.mutation import ChoiceMutator, find_choices

SOURCE = """\
# EVOLVE-BLOCK-START
def configure():
    '''Formats: ("json", "xml").'''
    # loader: ['csv', 'sql', 'é']
    return {'loader': 'csv', 'format': "json", 'other': 'free'}
# EVOLVE-BLOCK-END
OUTSIDE = 'csv'
"""


def fail_evaluation(skeleton: object) -> evaluation.Evaluation:
    return evaluation.failed("not evaluated")


def task(text: str, seed: int) -> function.ProposalContext:
    props = function.DefaultFunctionProps(function.Text(text), candidate_evaluator=fail_evaluation)
    parent = function.DefaultFunction(props).with_evaluation(Candidate("0.0", text), evaluation.Evaluation(0.0), 0.0)
    return function.ProposalContext(
        0, 1, 0, [parent], {}, {}, Random(seed), None, lambda fns: [], lambda fn, result: None
    )


def test_find_choices_returns_words_of_lists():
    assert [(choice.word, list(choice.options)) for choice in find_choices(SOURCE)] == [
        ("csv", ["csv", "sql", "é"]),
        ("json", ["json", "xml"]),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_child_changes_words_only_between_markers(seed):
    child = str(ChoiceMutator().propose(task(SOURCE, seed))[0].skeleton())
    assert child != SOURCE
    assert child.endswith("# EVOLVE-BLOCK-END\nOUTSIDE = 'csv'\n")
    compile(child, "child", "exec")
    assert {choice.word for choice in find_choices(child)} <= {"csv", "sql", "é", "json", "xml"}


def test_same_context_gives_same_child():
    first, second = (str(ChoiceMutator().propose(task(SOURCE, 5))[0].skeleton()) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("text", ["", "x = 1", "not python (", "x = 'a'  # ['b', 'c']", "x = 'a'  # ['a']"])
def test_source_without_lists_is_not_applicable(text):
    assert not find_choices(text)
    with pytest.raises(ValueError, match="has no list of words"):
        ChoiceMutator().propose(task(text, 0))


@given(st.text(max_size=60))
def test_find_choices_accepts_any_text(text):
    find_choices(text)
    find_choices(f"x = 'a'  # ['a', 'b'] {text}")
