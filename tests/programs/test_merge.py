"""Merging texts by the lineage that changed each part."""

from atoll import evaluation, function
from atoll.candidate import Candidate
from atoll.programs.gepa import text_mutator


def make_scored(*scores: float, **meta: object) -> function.Function:
    props = function.DefaultFunctionProps(
        function.Text("a"), candidate_evaluator=lambda skeleton: evaluation.Evaluation(0.0)
    )
    candidate = Candidate("1.0", "a", meta=meta)  # type: ignore[arg-type]
    return function.DefaultFunction(props).with_evaluation(
        candidate, evaluation.Evaluation(sum(scores), scores), sum(scores)
    )


def test_parents_are_complementary_if_each_is_better_somewhere():
    assert text_mutator.are_complementary(make_scored(1.0, 0.0), make_scored(0.0, 1.0))
    assert not text_mutator.are_complementary(make_scored(1.0, 1.0), make_scored(0.0, 1.0))
    same = make_scored(1.0, 0.0)
    assert not text_mutator.are_complementary(same, same)


def test_merge_takes_a_part_from_the_lineage_that_changed_it():
    parts, tags = text_mutator.merge_parts({"a": "A1", "b": "B0"}, {"a": ["x"]}, {"a": "A0", "b": "B1"}, {"b": ["y"]})
    assert parts == {"a": "A1", "b": "B1"}
    assert tags == {"a": ["x"], "b": ["y"]}


def test_merge_takes_the_later_text_of_one_lineage():
    parts, _ = text_mutator.merge_parts({"a": "A1"}, {"a": ["x"]}, {"a": "A2"}, {"a": ["x", "z"]})
    assert parts == {"a": "A2"}
    parts, _ = text_mutator.merge_parts({"a": "A2"}, {"a": ["x", "z"]}, {"a": "A1"}, {"a": ["x"]})
    assert parts == {"a": "A2"}


def test_merge_keeps_the_part_of_the_better_parent():
    parts, tags = text_mutator.merge_parts({"a": "A1"}, {"a": ["x"]}, {"a": "A2"}, {"a": ["y", "z"]})
    assert parts == {"a": "A1"}
    assert tags == {"a": ["x"]}


def test_tags_are_read_from_meta():
    assert text_mutator.get_tags(make_scored(1.0, tags={"a": ["x"]})) == {"a": ["x"]}
    assert text_mutator.get_tags(make_scored(1.0)) == {}
