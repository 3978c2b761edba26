"""Length limit of programs (max_code_length)."""

from types import SimpleNamespace
from typing import Any

import pytest

from atoll import evaluation, function
from atoll.programs.program_search import LengthLimit


def fail_evaluation(skeleton: object) -> evaluation.Evaluation:
    return evaluation.failed("not evaluated")


def fn(text: str) -> function.Function:
    return function.DefaultFunction(
        function.DefaultFunctionProps(function.Text(text), candidate_evaluator=fail_evaluation)
    )


class FixedProposer:
    def __init__(self, *texts: str) -> None:
        self._texts = texts

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        return [fn(text) for text in self._texts]


TASK: Any = SimpleNamespace()


def test_long_children_are_dropped_and_fail_the_proposal_if_none_remain():
    assert [str(item.skeleton()) for item in LengthLimit(FixedProposer("abc", "abcd"), 3).propose(TASK)] == ["abc"]
    with pytest.raises(ValueError, match="the program has 4 characters; max_code_length is 3"):
        LengthLimit(FixedProposer("abcd", "abcdef"), 3).propose(TASK)
    assert LengthLimit(FixedProposer(), 3).propose(TASK) == []
