"""Index of all programs of a run. An iteration sees only programs added before it began."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from atoll import evaluation, function, gate
from atoll.candidate import Candidate
from atoll.programs.population import novelty

INITIAL = "x = 1\n"


def make_function(content: str) -> function.Function:
    evaluator = lambda skeleton: evaluation.Evaluation(1.0)  # noqa: E731 - never called
    return function.DefaultFunction(
        function.DefaultFunctionProps(function.Text(content), candidate_evaluator=evaluator)
    )


def add_programs(index: novelty.ProgramIndex, *contents: str) -> None:
    for number, content in enumerate(contents, 1):
        fn = make_function(content)
        child = fn.with_evaluation(Candidate(f"{number}.0", content), evaluation.Evaluation(1.0))
        index.learn(
            function.IterationResult(
                number, 0, (), {}, [(child, gate.Decision("accept", "", "gate"))], None, evaluation.ZERO_COST
            )
        )


def test_index_finds_equivalent_programs():  # P16
    index = novelty.ProgramIndex(INITIAL)
    add_programs(index, "def f(a):\n    return a + 1\n", "def f(a):\n    return a + 2\n")
    assert index.find_duplicate("def f(a):  # more\n    return a + 2\n", 2) == "it repeats 2.0 in other words"
    assert index.find_duplicate("x  =  1", 0) == "it repeats 0.0 in other words"
    assert index.find_duplicate("def f(a):\n    return a + 3\n", 2) == ""


def test_index_ignores_programs_added_after_the_iteration_began():
    index = novelty.ProgramIndex(INITIAL)
    add_programs(index, "y = 2\n")
    assert index.find_duplicate("y  = 2\n", 0) == ""
    assert index.find_duplicate("y  = 2\n", 1) != ""


def test_index_ignores_identical_text():
    index = novelty.ProgramIndex(INITIAL)
    assert index.find_duplicate(INITIAL, 5) == ""


def test_duplicate_child_is_rejected_with_the_reason():
    class Engine:
        def propose(self, context: function.ProposalContext) -> list[function.Function]:
            return [function.derive_child(context.parents[0], function.Text("x  =  1"), engine="llm")]

    parent = make_function("z = 3")
    task = function.ProposalContext(
        0, 1, 0, (parent,), {}, {}, Random(0), None, lambda drafts: [], lambda fn, result: None
    )
    (child,) = novelty.DuplicateTagger(Engine(), novelty.ProgramIndex(INITIAL)).propose(task)
    assert child.candidate is not None
    assert child.candidate.meta["engine"] == "llm"
    decision = novelty.NoveltyFilter()(gate.Proposal(child.candidate, None, (), ()))
    assert (decision.verdict, decision.reason) == ("reject", "it repeats 0.0 in other words")


@given(st.lists(st.sampled_from(["a = 1", "a  = 1", "b = 1", "b =  1", "a = 2"]), max_size=12), st.integers(0, 12))
def test_index_agrees_with_linear_search(contents, num_seen):
    index = novelty.ProgramIndex(INITIAL)
    add_programs(index, *contents)
    for text in ("a = 1 ", "b = 1 ", "a = 2 ", "c = 1 "):
        same = novelty.hash_program(text, True)
        expected = any(novelty.hash_program(item, True) == same for item in contents[:num_seen])
        assert bool(index.find_duplicate(text, num_seen)) == expected
