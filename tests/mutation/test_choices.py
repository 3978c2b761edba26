"""Words from the lists that a program gives."""

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


def nobody(skeleton: object) -> evaluation.Evaluation:
    return evaluation.failed("nobody judged it")


def task(text: str, seed: int) -> function.ProposalContext:
    made = function.DefaultFunction(function.DefaultFunctionProps(function.Text(text), candidate_evaluator=nobody))
    parent = made.with_evaluation(Candidate("0.0", text), evaluation.Evaluation(0.0), 0.0)
    return function.ProposalContext(
        0, 1, 0, [parent], {}, {}, Random(seed), None, lambda drafts: [], lambda fn, found: None
    )


def test_a_text_that_stands_in_a_list_may_be_another_of_it():
    assert [(each.word, list(each.options)) for each in find_choices(SOURCE)] == [
        ("csv", ["csv", "sql", "é"]),
        ("json", ["json", "xml"]),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_children_pick_other_words_inside_the_markers_only(seed):
    child = str(ChoiceMutator().propose(task(SOURCE, seed))[0].skeleton())
    assert child != SOURCE
    assert child.endswith("# EVOLVE-BLOCK-END\nOUTSIDE = 'csv'\n")
    compile(child, "child", "exec")
    assert {each.word for each in find_choices(child)} <= {"csv", "sql", "é", "json", "xml"}


def test_the_same_task_gives_the_same_child():
    one, other = (str(ChoiceMutator().propose(task(SOURCE, 5))[0].skeleton()) for _ in range(2))
    assert one == other


@pytest.mark.parametrize("text", ["", "x = 1", "not python (", "x = 'a'  # ['b', 'c']", "x = 'a'  # ['a']"])
def test_without_lists_there_is_nothing_to_pick(text):
    assert not find_choices(text)
    with pytest.raises(ValueError, match="no list in the program"):
        ChoiceMutator().propose(task(text, 0))


@given(st.text(max_size=60))
def test_any_text_is_taken(text):
    find_choices(text)
    find_choices(f"x = 'a'  # ['a', 'b'] {text}")
