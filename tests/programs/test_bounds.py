"""How long a program may be (max_code_length)."""

from types import SimpleNamespace
from typing import Any

import pytest

from atoll import evaluation, function
from atoll.programs.build import LengthLimit


def nobody(skeleton: object) -> evaluation.Evaluation:
    return evaluation.failed("nobody judged it")


def fn(text: str) -> function.Function:
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text(text), candidate_evaluator=nobody))


class Proposing:
    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        return [fn(text) for text in self._texts]


TASK: Any = SimpleNamespace()


def test_longer_children_are_left_out_and_alone_are_a_failed_proposal():
    assert [str(each.skeleton()) for each in LengthLimit(Proposing("abc", "abcd"), 3).propose(TASK)] == ["abc"]
    with pytest.raises(ValueError, match="the program has 4 characters; max_code_length is 3"):
        LengthLimit(Proposing("abcd", "abcdef"), 3).propose(TASK)
    assert LengthLimit(Proposing(), 3).propose(TASK) == []
