"""Merging by which line changed what."""

from atoll import evaluation, function
from atoll.candidate import Candidate
from atoll.programs.gepa import text_mutator


def scored(*scores: float, **meta: object) -> function.Function:
    props = function.DefaultFunctionProps(
        function.Text("a"), candidate_evaluator=lambda skeleton: evaluation.Evaluation(0.0)
    )
    candidate = Candidate("1.0", "a", meta=meta)  # type: ignore[arg-type]
    return function.DefaultFunction(props).with_evaluation(
        candidate, evaluation.Evaluation(sum(scores), scores), sum(scores)
    )


def test_two_complement_each_other_if_each_is_better_somewhere():
    assert text_mutator.are_complementary(scored(1.0, 0.0), scored(0.0, 1.0))
    assert not text_mutator.are_complementary(scored(1.0, 1.0), scored(0.0, 1.0))
    same = scored(1.0, 0.0)
    assert not text_mutator.are_complementary(same, same)


def test_a_part_comes_from_the_line_that_changed_it():
    parts, tags = text_mutator.merge_parts({"a": "A1", "b": "B0"}, {"a": ["x"]}, {"a": "A0", "b": "B1"}, {"b": ["y"]})
    assert parts == {"a": "A1", "b": "B1"}
    assert tags == {"a": ["x"], "b": ["y"]}


def test_where_one_line_went_on_from_the_other_the_later_text_is_taken():
    parts, _ = text_mutator.merge_parts({"a": "A1"}, {"a": ["x"]}, {"a": "A2"}, {"a": ["x", "z"]})
    assert parts == {"a": "A2"}
    parts, _ = text_mutator.merge_parts({"a": "A2"}, {"a": ["x", "z"]}, {"a": "A1"}, {"a": ["x"]})
    assert parts == {"a": "A2"}


def test_where_both_changed_a_part_the_better_one_keeps_it():
    parts, tags = text_mutator.merge_parts({"a": "A1"}, {"a": ["x"]}, {"a": "A2"}, {"a": ["y", "z"]})
    assert parts == {"a": "A1"}
    assert tags == {"a": ["x"]}


def test_tags_are_read_from_the_note_of_a_candidate():
    assert text_mutator.get_tags(scored(1.0, tags={"a": ["x"]})) == {"a": ["x"]}
    assert text_mutator.get_tags(scored(1.0)) == {}
