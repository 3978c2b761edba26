"""Merging texts by the lineage that changed each part."""

import json

from atoll import evaluation, function
from atoll.candidate import Candidate
from atoll.programs.gepa import text_parts
from tests.mutation.tasks import task


def make_scored(*scores: float, **meta: object) -> function.Function:
    props = function.DefaultFunctionProps(
        function.Text("a"), candidate_evaluator=lambda skeleton: evaluation.Evaluation(0.0)
    )
    candidate = Candidate("1.0", "a", meta=meta)  # type: ignore[arg-type]
    return function.DefaultFunction(props).with_evaluation(
        candidate, evaluation.Evaluation(sum(scores), scores), sum(scores)
    )


def test_parents_are_complementary_if_each_is_better_somewhere():
    assert text_parts.are_complementary(make_scored(1.0, 0.0), make_scored(0.0, 1.0))
    assert not text_parts.are_complementary(make_scored(1.0, 1.0), make_scored(0.0, 1.0))
    same = make_scored(1.0, 0.0)
    assert not text_parts.are_complementary(same, same)


def test_merge_takes_a_part_from_the_lineage_that_changed_it():
    parts, tags = text_parts.merge_parts({"a": "A1", "b": "B0"}, {"a": ["x"]}, {"a": "A0", "b": "B1"}, {"b": ["y"]})
    assert parts == {"a": "A1", "b": "B1"}
    assert tags == {"a": ["x"], "b": ["y"]}


def test_merge_takes_the_later_text_of_one_lineage():
    parts, _ = text_parts.merge_parts({"a": "A1"}, {"a": ["x"]}, {"a": "A2"}, {"a": ["x", "z"]})
    assert parts == {"a": "A2"}
    parts, _ = text_parts.merge_parts({"a": "A2"}, {"a": ["x", "z"]}, {"a": "A1"}, {"a": ["x"]})
    assert parts == {"a": "A2"}


def test_merge_keeps_the_part_of_the_better_parent():
    parts, tags = text_parts.merge_parts({"a": "A1"}, {"a": ["x"]}, {"a": "A2"}, {"a": ["y", "z"]})
    assert parts == {"a": "A1"}
    assert tags == {"a": ["x"]}


def test_tags_are_read_from_meta():
    assert text_parts.get_tags(make_scored(1.0, tags={"a": ["x"]})) == {"a": ["x"]}
    assert text_parts.get_tags(make_scored(1.0)) == {}


class UpperCase:
    """Writes a text in capital letters."""

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        parent = context.parents[-1]
        return [function.derive_child(parent, function.Text(str(parent.skeleton()).upper() + "\n"), engine="upper")]


def make_parts(content: dict[str, str], *scores: float, tags: dict[str, list[str]]) -> function.Function:
    text = json.dumps(content)
    props = function.DefaultFunctionProps(
        function.Text(text), candidate_evaluator=lambda skeleton: evaluation.Evaluation(0.0)
    )
    result = evaluation.Evaluation(sum(scores), scores)
    return function.DefaultFunction(props).with_evaluation(
        Candidate(text[:12], text, meta={"tags": tags}), result, result.score
    )


def test_parts_take_turns_and_others_stay():
    proposer = text_parts.PartProposer(UpperCase(), text_parts.TextFormat(True))
    parent = make_parts({"a": "x", "b": "y"}, 1.0, tags={})
    texts = []
    for iteration in (0, 1):
        [child] = proposer.propose(task(parent)._replace(iteration=iteration))
        texts.append(json.loads(str(child.skeleton())))
        assert child.candidate is not None
        assert child.candidate.meta["part"] == "ab"[iteration]
    assert texts == [{"a": "X", "b": "y"}, {"a": "x", "b": "Y"}]


def test_request_to_combine_merges_parts_without_proposer():
    ours = make_parts({"a": "A1", "b": "B0"}, 1.0, 0.0, tags={"a": ["1"]})
    theirs = make_parts({"a": "A0", "b": "B1"}, 0.0, 1.0, tags={"b": ["2"]})
    context = task(ours, others={"other": [theirs]})._replace(advice={"mode": "cross"})
    [child] = text_parts.PartProposer(UpperCase(), text_parts.TextFormat(True)).propose(context)
    assert json.loads(str(child.skeleton())) == {"a": "A1", "b": "B1"}
    assert child.candidate is not None
    assert child.candidate.meta["engine"] == "merge"
