"""Minibatches of data sets: choice of instances, comparison with the parent, ties, budget and Pareto parents."""

import json
import random
from random import Random
from typing import Any

import pytest

from atoll import errors, evaluation, function, gate, journal, llm, testing
from atoll.candidate import Candidate, content_hash
from atoll.mutation.combined import REJECTED_KEY
from atoll.programs import parameter_search
from atoll.programs.gepa import dataset_evaluator, front_population, instance_job, minibatch, text_parts
from tests.mutation.tasks import task

ITEMS = list("abcdefgh")
SHARED = minibatch.DatasetSplit(ITEMS, ITEMS)
SEPARATE = minibatch.DatasetSplit(list("abcd"), list("wxyz"))


def evaluate_text(skeleton: object) -> evaluation.Evaluation:
    """Scores a text by its hash, on four instances or on those of a minibatch."""
    all_instances = {"at": range(4), "content": skeleton}
    sample: dict[str, Any] = (
        json.loads(skeleton) if isinstance(skeleton, dataset_evaluator.Minibatch) else all_instances
    )
    scores = tuple(int(content_hash(f"{item}{sample['content']}")[:6], 16) / 16**6 for item in sample["at"])
    return evaluation.Evaluation(sum(scores) / len(scores), scores, feedback=f"on {list(sample['at'])}")


def text(content: str, *scores: float, **meta: Any) -> function.Function:
    props = function.DefaultFunctionProps(function.Text(content), candidate_evaluator=evaluate_text)
    result = evaluation.Evaluation(sum(scores), scores) if scores else evaluate_text(content)
    return function.DefaultFunction(props).with_evaluation(
        Candidate(content[:8], content, meta=meta), result, result.score
    )


class TestEditedTexts(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        edits = text_parts.PartProposer(text_parts.RandomTextProposer(), text_parts.TextFormat(False))
        split = minibatch.DatasetSplit(ITEMS[:4], ITEMS[4:])
        return minibatch.MinibatchProposer(edits, split, [(0, 1), (2, 3)], 2)

    def initial(self, model: llm.LLM) -> function.Function:
        return text("One. Two. Three. Four.")


class FixedProposer:
    """Proposes one text, and keeps the feedback that it was shown."""

    def __init__(self, content: str) -> None:
        self.content, self.shown = content, list[str]()

    def propose(self, context: function.ProposalContext) -> list[function.Function]:
        parent = context.parents[-1]
        assert parent.evaluation is not None
        self.shown.append(parent.evaluation.feedback)
        return [function.derive_child(parent, function.Text(self.content), engine="fixed")]


def propose(
    scores: dict[str, list[float]],
    data: minibatch.DatasetSplit = SHARED,
    parent: str = "old",
    seed: int = 0,
    target: float | None = None,
) -> tuple[Any, FixedProposer, list[tuple[str, str, list[int]]]]:
    """Lets "new" be proposed for a parent; returns its meta, the proposer and the trials."""
    trials, inner = list[tuple[str, str, list[int]]](), FixedProposer("new")

    def evaluate(fns: Any) -> list[evaluation.Evaluation]:
        batches = [json.loads(fn.skeleton()) for fn in fns]
        trials.extend((batch["content"], batch["part"], batch["at"]) for batch in batches)
        rows = [tuple(scores[batch["content"]][index] for index in batch["at"]) for batch in batches]
        return [evaluation.Evaluation(sum(row) / len(row), row, feedback=f"{row}") for row in rows]

    fn = text(parent, *scores[parent])
    proposer = minibatch.MinibatchProposer(inner, data, data.make_batches(3, 0), 3, target)
    children = proposer.propose(task(fn, seed=seed)._replace(evaluate=evaluate))
    return (children[0].candidate.meta if children and children[0].candidate else None), inner, trials


def decide(meta: Any) -> gate.Decision:
    return minibatch.MinibatchFilter()(gate.Proposal(Candidate("1.0", "new", meta=meta), None))


@pytest.mark.parametrize("seed", range(5))
def test_minibatch_has_failure_of_parent(seed):
    _, inner, trials = propose({"old": [1, 1, 1, 0, 1, 1, 1, 1], "new": [1] * 8}, seed=seed)
    assert 3 in trials[0][2]
    assert len(trials[0][2]) == 3
    assert inner.shown == ["(1, 0, 1)"] or "0" in inner.shown[0]


def test_parent_without_failure_is_not_proposed_from():
    meta, inner, trials = propose({"old": [1.0] * 8, "new": [1.0] * 8})
    assert (meta, inner.shown, trials) == (None, [], [])
    meta, inner, trials = propose({"old": [1.0] * 4, "new": [1.0] * 4}, SEPARATE)
    assert (meta, inner.shown) == (None, [])
    assert {part for _, part, _ in trials} == {"train"}
    assert propose({"old": [1.0] * 8, "new": [1.0] * 8}, target=2.0)[1].shown  # higher scores exist


def test_worse_child_is_rejected_with_measured_reason():
    meta, _, trials = propose({"old": [0.5] * 8, "new": [0.0] * 8})
    decision = decide(meta)
    assert decision.verdict == "reject"
    assert decision.reason == "mean 0 against 0.5 of its parent on 3 training instances"
    assert [content for content, _, _ in trials] == ["old", "old", "new"]


def test_better_child_passes():
    meta, _, trials = propose({"old": [0.5] * 8, "new": [0.75] * 8})
    assert decide(meta).verdict == "accept"
    assert [content for content, _, _ in trials] == ["old", "old", "new"]


def test_tie_goes_to_validation():
    even = [0.5] * 4
    meta, _, trials = propose({"old": even, "new": even}, SEPARATE)
    assert decide(meta).verdict == "accept"
    assert trials[-1][1] == "validation"
    scores: dict[str, Any] = {"old": [0.5] * 8, "new": [0.5] * 8}
    _, _, trials = propose(scores)
    worse = [0.5 if index in trials[0][2] else 0.0 for index in range(8)]
    meta, _, _ = propose({"old": [0.5] * 8, "new": worse})
    assert decide(meta).reason == "mean 0 against 0.5 of its parent on 3 validation instances"


def test_second_tie_without_any_gain_ends_before_a_long_validation():
    many = minibatch.DatasetSplit(list("abcd"), [f"v{index}" for index in range(20)])
    meta, _, trials = propose({"old": [0.5] * 20, "new": [0.5] * 20}, many)
    assert decide(meta).reason == "better than its parent on none of 8 instances"
    assert trials[-1][1] == "validation"
    uneven = [0.5, 0.25, 0.75, 0.5] + [0.5] * 16  # better on one training instance
    decisions = [decide(propose({"old": [0.5] * 20, "new": uneven}, many, seed=seed)[0]) for seed in range(8)]
    assert any(decision.verdict == "accept" for decision in decisions)


def test_further_training_instances_are_shown_with_their_answers():
    def make(kind: str) -> list[dict[str, str]]:
        return [{"question": f"{kind} {index}", "answer": str(index)} for index in range(8)]

    scores: dict[str, Any] = {"old": [0.5] * 8, "new": [0.5] * 8}
    _, inner, _ = propose(scores, minibatch.DatasetSplit(make("train"), make("hidden")))
    assert inner.shown[0].count("question: train") == 5  # all but the minibatch
    assert "More instances, not evaluated\nquestion: train" in inner.shown[0]
    assert "hidden" not in inner.shown[0]
    shared = make("train")
    _, inner, _ = propose(scores, minibatch.DatasetSplit(shared, shared))
    assert "More instances" not in inner.shown[0]


def test_child_that_fails_on_minibatch_is_rejected_with_its_failure():
    def evaluate(fns: Any) -> list[evaluation.Evaluation]:
        if json.loads(fns[0].skeleton())["content"] == "new":
            return [evaluation.failed("ValueError: no")]
        return [evaluation.Evaluation(0.0, (0.0,))]

    proposer = minibatch.MinibatchProposer(FixedProposer("new"), SHARED, (), 3)
    fn = text("old", *[0.0] * 8)
    [child] = proposer.propose(task(fn)._replace(evaluate=evaluate))
    assert child.candidate is not None
    assert decide(child.candidate.meta).reason == "ValueError: no"
    assert REJECTED_KEY in child.candidate.meta


def test_filter_asks_next_one():
    def reject(proposal: gate.Proposal) -> gate.Decision:
        return gate.Decision("reject", "known", "novelty")

    proposal = gate.Proposal(Candidate("1.0", "new"), None)
    assert minibatch.MinibatchFilter(reject)(proposal).reason == "known"
    assert minibatch.MinibatchFilter()(proposal).verdict == "accept"


def test_call_budget_reserves_most_that_iterations_need():
    memory = dataset_evaluator.CallMemory()
    budget = minibatch.CallBudget(memory, 10, 4)
    assert budget.reserve(1)
    assert budget.reserve(2)
    assert not budget.reserve(3)
    assert "budget of 10 evaluator calls used" in str(budget.find_reason(Any))  # type: ignore[arg-type]
    budget.learn(function.IterationResult(1, 0, [], {}, [], None, evaluation.ZERO_COST))
    assert budget.find_reason(Any) is None  # type: ignore[arg-type]
    for index in range(6):
        memory.add(None, "x", "train", index, {})
    assert not budget.reserve(4)
    assert minibatch.CallBudget(memory, None, 4).reserve(1)


def test_perfect_score_is_target_or_one():
    assert minibatch.find_perfect_score([0.2, 0.4], None) == 1.0
    assert minibatch.find_perfect_score([0.2, 1.4], None) is None
    assert minibatch.find_perfect_score([0.2, 1.4], 3.0) == 3.0


class ListJournal(journal.NullJournal):
    """Keeps its records in a list."""

    def __init__(self) -> None:
        self.records = list[journal.Record]()

    def write(self, *records: journal.Record) -> None:
        self.records += records


class TestMemory:
    def make(self, log: list[Any], **options: Any) -> dataset_evaluator.DatasetEvaluator:
        def evaluate(content: str, item: str) -> tuple[float, str]:
            log.append((content, item))
            return float(item in content), f"needs {item}"

        parts = {"train": ITEMS, "validation": ITEMS}
        job = instance_job.InstanceJob(evaluate, str, parts)
        return dataset_evaluator.DatasetEvaluator(dataset_evaluator.InProcessExecutor(job, 3), parts, **options)

    def test_instance_is_evaluated_once(self):
        log = list[Any]()
        evaluator = self.make(log)
        batch = evaluator(dataset_evaluator.Minibatch.create("abc", [0, 7]))
        assert batch.scores == (1.0, 0.0)
        assert "Input: h\nScore: 0\nFeedback: needs h" in batch.feedback
        full = evaluator(function.Text("abc"))
        assert full.score == 3 / 8
        assert full.feedback == ""  # validation instances are not shown
        assert len(log) == len(set(log)) == evaluator.memory.calls == 8

    def test_journal_keeps_calls(self):
        records, log = ListJournal(), list[Any]()
        evaluator = self.make(log, memory=dataset_evaluator.CallMemory(is_stored=True))
        token = journal.CallCache.current.set(journal.CallCache(1, 0, records, {}))
        evaluator(function.Text("abc"))
        journal.CallCache.current.reset(token)
        memory = dataset_evaluator.CallMemory()
        memory.load(records.records)
        assert memory.calls == 8
        assert self.make(log, memory=memory)(function.Text("abc")).score == 3 / 8
        assert len(log) == 8

    def test_dict_instances_and_reported_outputs_are_shown(self):
        def evaluate(content: str, item: dict[str, str]) -> dict[str, Any]:
            return {"score": 0.0, "output": "two", "expected": item["answer"], "feedback": "wrong"}

        parts = {"train": [{"question": "1 + 2", "answer": "three"}]}
        job = instance_job.InstanceJob(evaluate, str, parts)
        evaluator = dataset_evaluator.DatasetEvaluator(dataset_evaluator.InProcessExecutor(job), parts)
        result = evaluator(dataset_evaluator.Minibatch.create("x", [0]))
        expected = "question: 1 + 2\nanswer: three\nScore: 0\nFeedback: output: two\nexpected: three\nwrong"
        assert expected in result.feedback

    def test_cost_that_evaluator_reports_is_counted(self):
        def evaluate(content: str, item: str) -> evaluation.Evaluation:
            return evaluation.Evaluation(1.0, cost=evaluation.Cost(usd=0.5, tokens_in=3))

        parts = {"train": ITEMS, "validation": ITEMS}
        job = instance_job.InstanceJob(evaluate, str, parts)
        evaluator = dataset_evaluator.DatasetEvaluator(dataset_evaluator.InProcessExecutor(job), parts)
        assert evaluator(function.Text("x")).cost.usd == 4.0
        assert evaluator(function.Text("x")).cost.usd == 0.0  # known


def test_edits_change_text_without_other():
    for seed in range(30):
        [child] = text_parts.RandomTextProposer().propose(task(text("One. Two. Two."), seed=seed))
        assert str(child.skeleton()).split() != ["One.", "Two.", "Two."]


class TestFront:
    def make(self, *fns: function.Function, explores: bool = False) -> front_population.FrontPopulation:
        search = front_population.FrontSearch(40, explores=explores)
        population = search.make_population(0, Random(1), None)
        for fn in fns:
            population.add_fn(fn, gate.Decision("accept", "", ""))
        assert isinstance(population, front_population.FrontPopulation)
        return population

    def test_parents_are_best_on_some_instance(self):
        fns = [text("a", 1.0, 0.0, 0.0), text("b", 0.0, 1.0, 0.0), text("c", 0.4, 0.4, 0.9), text("d", 0.3, 0.3, 0.3)]
        population = self.make(*fns)
        for _ in range(2):  # the iteration that made the best one, and one try of it
            population.count_try(fns[2], is_new=False)
        parents = {str(population.select().parents[0].skeleton()) for _ in range(200)}
        assert parents == {"a", "b", "c"}

    def test_partner_is_better_on_other_instances(self):
        first, second = text("a", 1.0, 0.0), text("b", 0.0, 0.9)
        population = self.make(first, second)
        inspirations = population._choose_inspirations(first)
        assert [str(fn.skeleton()) for fn in inspirations["other"]] == ["b"]

    def test_many_equal_champions_are_bounded(self):
        population = self.make(*(text(f"t{number}", 1.0, number / 100) for number in range(30)))
        assert len(population._champions[0]) == 8

    def test_merging_is_optional(self):
        search = front_population.FrontSearch(40, merges=False)
        assert "cross" not in {search._choose_form("spread", text("a"), random.Random(seed)) for seed in range(50)}


def test_tunables_are_ranges_choices_flags_and_numbers():
    result = parameter_search.parse_tunables(
        {"a": (0.5, 0, 1.0), "b": (2, 1, 9), "c": ("x", ["x", "y"]), "d": True, "e": 3.0}
    )
    assert [item.is_integer for item in result] == [False, True, False, False, False]
    assert result[2].choices == ("x", "y")
    assert result[3].choices == (False, True)
    assert (result[4].low, result[4].high) == (0.0, 30.0)
    with pytest.raises(errors.SetupError, match="Parameter a"):
        parameter_search.parse_tunables({"a": None})
