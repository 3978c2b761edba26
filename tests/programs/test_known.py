"""Novelty against the whole run: an index that is taught in order, and read up to what a step had seen."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from atoll import evaluation, function, gate
from atoll.candidate import Candidate
from atoll.programs.population import novelty

START = "x = 1\n"


def made(content: str) -> function.Function:
    judge = lambda skeleton: evaluation.Evaluation(1.0)  # noqa: E731 - never asked
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text(content), candidate_evaluator=judge))


def taught(index: novelty.ProgramIndex, *contents: str) -> None:
    for number, content in enumerate(contents, 1):
        fn = made(content)
        child = fn.with_evaluation(Candidate(f"{number}.0", content), evaluation.Evaluation(1.0))
        index.learn(
            function.IterationResult(
                number, 0, (), {}, [(child, gate.Decision("accept", "", "gate"))], None, evaluation.ZERO_COST
            )
        )


def test_what_the_run_has_had_is_found_in_other_words():  # P16
    index = novelty.ProgramIndex(START)
    taught(index, "def f(a):\n    return a + 1\n", "def f(a):\n    return a + 2\n")
    assert index.find_duplicate("def f(a):  # more\n    return a + 2\n", 2) == "it repeats 2.0 in other words"
    assert index.find_duplicate("x  =  1", 0) == "it repeats 0.0 in other words"
    assert index.find_duplicate("def f(a):\n    return a + 3\n", 2) == ""


def test_a_step_sees_nothing_that_was_applied_after_it_was_issued():
    index = novelty.ProgramIndex(START)
    taught(index, "y = 2\n")
    assert index.find_duplicate("y  = 2\n", 0) == ""
    assert index.find_duplicate("y  = 2\n", 1) != ""


def test_word_for_word_the_same_is_for_the_evolver_to_remember():
    index = novelty.ProgramIndex(START)
    assert index.find_duplicate(START, 5) == ""


def test_a_child_that_repeats_is_refused_by_the_screen_with_the_reason():
    class Engine:
        def propose(self, context: function.ProposalContext) -> list[function.Function]:
            return [function.derive_child(context.parents[0], function.Text("x  =  1"), engine="llm")]

    parent = made("z = 3")
    task = function.ProposalContext(
        0, 1, 0, (parent,), {}, {}, Random(0), None, lambda drafts: [], lambda fn, found: None
    )
    (child,) = novelty.DuplicateTagger(Engine(), novelty.ProgramIndex(START)).propose(task)
    assert child.candidate is not None
    assert child.candidate.meta["engine"] == "llm"
    decision = novelty.NoveltyFilter()(gate.Proposal(child.candidate, None, (), ()))
    assert (decision.verdict, decision.reason) == ("reject", "it repeats 0.0 in other words")


@given(st.lists(st.sampled_from(["a = 1", "a  = 1", "b = 1", "b =  1", "a = 2"]), max_size=12), st.integers(0, 12))
def test_it_finds_what_a_search_through_all_finds(contents, seen):
    index = novelty.ProgramIndex(START)
    taught(index, *contents)
    for text in ("a = 1 ", "b = 1 ", "a = 2 ", "c = 1 "):
        same = novelty.hash_program(text, True)
        expected = any(novelty.hash_program(each, True) == same for each in contents[:seen])
        assert bool(index.find_duplicate(text, seen)) == expected
