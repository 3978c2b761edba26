"""TextMutator: minibatches, Pareto parents, notes and parameters."""

import json
import random
from random import Random
from typing import Any

import pytest

from atoll import cluster, errors, evaluation, function, gate, llm, testing
from atoll.candidate import Candidate, content_hash
from atoll.programs import learners, parameter_search
from atoll.programs.gepa import dataset_evaluator, reflection, text_edits, text_mutator
from tests.mutation.tasks import task

BATCHES = [(0, 1), (2, 3)]


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


class TestReflectiveTexts(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return text_mutator.TextMutator(
            text_mutator.TextFormat(False), reflection.ReflectionWriter(model), BATCHES, merge_probability=0.5
        )

    def initial(self, model: llm.LLM) -> function.Function:
        return text("one two")

    def answer(self, step: int, call: str, prompt: str) -> str:
        number = Random(f"{step}/{call}/{prompt}").randint(0, 9)
        return "I cannot." if number == 9 else f"More.\n```text\none {number}\n```\n"


class TestEditedTexts(testing.ProposerSuite):
    def make(self, model: llm.LLM) -> function.Proposer:
        return text_mutator.TextMutator(text_mutator.TextFormat(False), text_edits.RandomTextWriter(), BATCHES)

    def initial(self, model: llm.LLM) -> function.Function:
        return text("One. Two. Three. Four.")


def evaluate_all(trials: Any) -> list[evaluation.Evaluation]:
    return [evaluate_text(fn.skeleton()) for fn in trials]


def propose(response: str, *parents: function.Function, batches: Any = BATCHES, **options: Any) -> dict[str, Any]:
    model = testing.ScriptedLLM(lambda step, call, prompt: response)
    engine = text_mutator.TextMutator(
        text_mutator.TextFormat(False), reflection.ReflectionWriter(model), batches, **options
    )
    [child] = engine.propose(task(*parents)._replace(evaluate=evaluate_all))
    assert child.candidate is not None
    return {**child.candidate.meta, "text": str(child.skeleton())}


def test_child_has_minibatch_scores_of_itself_and_its_parent():
    child_meta = propose("Why.\n```text\nthree\n```", text("one"))
    batch = child_meta["tried"][-1]
    assert child_meta["before"] == evaluate_text(dataset_evaluator.Minibatch.create("one", batch)).score
    assert child_meta["after"] == evaluate_text(dataset_evaluator.Minibatch.create("three", batch)).score
    assert child_meta["note"] == "Why."


def test_child_without_batches_has_no_minibatch_scores():
    child_meta = propose("Why.\n```text\nthree\n```", text("one"), batches=())
    assert child_meta == {"engine": "reflection", "part": "text", "note": "Why.", "text": "three"}


@pytest.mark.parametrize(
    ("response", "reason"),
    [("No.", "returned no text in a fenced block"), ("```text\none\n```", "returned the same text")],
)
def test_useless_response_is_rejected_by_the_prefilter(response, reason):
    child_meta = propose(response, text("one"))
    decision = text_mutator.better_on_batch(gate.Proposal(Candidate("1.0", "one", meta=child_meta), None))
    assert decision.verdict == "reject"
    assert reason in decision.reason


@pytest.mark.parametrize(
    ("meta", "verdict"),
    [
        ({}, "accept"),
        ({"before": 0.5, "after": 0.6, "engine": "x"}, "accept"),
        ({"before": 0.5, "after": 0.5, "engine": "x"}, "reject"),
        ({"before": 0.5, "after": 0.5, "engine": "merge"}, "accept"),
        ({"before": 0.5, "after": 0.4, "engine": "merge"}, "reject"),
        ({"before": 0.5, "after": None, "engine": "x"}, "reject"),
        ({"before": None, "after": 0.1, "engine": "x"}, "accept"),
    ],
)
def test_prefilter_accepts_only_better_children(meta, verdict):
    assert text_mutator.better_on_batch(gate.Proposal(Candidate("1.0", "", meta=meta), None)).verdict == verdict


def test_perfect_batch_is_replaced_by_another():
    assert len(propose("Why.\n```text\nthree\n```", text("one"), perfect_score=0.0)["tried"]) == 2
    assert len(propose("Why.\n```text\nthree\n```", text("one"), perfect_score=1.0)["tried"]) == 1


def test_prompt_shows_results_of_earlier_batches():
    prompts: list[str] = []

    def model(step: int, call: str, prompt: str) -> str:
        prompts.append(prompt)
        return "```text\nthree\n```"

    engine = text_mutator.TextMutator(
        text_mutator.TextFormat(False), reflection.ReflectionWriter(testing.ScriptedLLM(model)), [(0, 1)]
    )
    engine.propose(task(text("one", tried=[[2, 3]]))._replace(evaluate=evaluate_all))
    assert "on [2, 3]" in prompts[0]
    assert "on [0, 1]" in prompts[0]


def test_dict_of_texts_is_merged_part_by_part():
    form = text_mutator.TextFormat(True)
    better = text(form.join_parts({"a": "A1", "b": "B0"}), 1.0, 0.5, tags={"a": ["x"]})
    other = text(form.join_parts({"a": "A0", "b": "B1"}), 0.0, 1.0, tags={"b": ["y"]})
    engine = text_mutator.TextMutator(form, text_edits.RandomTextWriter(), merge_probability=1.0)
    [child] = engine.propose(task(other, better))
    assert json.loads(str(child.skeleton())) == {"a": "A1", "b": "B1"}
    assert child.candidate is not None
    assert child.candidate.parents == (better.candidate.id, other.candidate.id)  # type: ignore[union-attr]


@pytest.mark.parametrize("content", ["one", "one two", "One. Two. Three.", "- a\n- b\n- c\n", "x"])
def test_random_edit_changes_text_and_never_empties_it(content):
    for seed in range(30):
        request = text_mutator.RewriteRequest(
            "text", {"text": content}, "", None, {}, Random(seed), {"text": "Lent. Words."}
        )
        child_meta = text_edits.RandomTextWriter().write(request).text
        assert child_meta.strip()
        assert child_meta.split() != content.split()


def test_pareto_population_agrees_with_simple_implementation():
    rng = random.Random(5)
    population = text_mutator.make_pareto_population(0, random.Random(1), None)
    fns = [text(f"t{number}", *(float(rng.randrange(3)) for _ in range(4))) for number in range(60)]
    for fn in fns:
        population.add_fn(fn, gate.Decision("accept", "", ""))
    for instance, cell in population.clusters.items():
        scores = [fn.evaluation.scores[instance] for fn in fns if fn.evaluation]  # type: ignore[call-overload]
        best = {fn.candidate.id for fn, score in zip(fns, scores, strict=True) if score == max(scores)}  # type: ignore[union-attr]
        assert {fn.candidate.id for fn in cell.members()} == best  # type: ignore[union-attr]
    drawn = [fn for _ in range(50) for fn in population.select().parents]
    assert all(any(fn in cell.members() for cell in population.clusters.values()) for fn in drawn)


class TestFront(testing.ClusterSuite):
    def make(self) -> cluster.Cluster:
        return text_mutator.InstanceCluster(Random(0), None, 0)


def make_result(fn: function.Function, verdict: Any, parent: function.Function) -> function.IterationResult:
    decision = gate.Decision(verdict, "", "")
    return function.IterationResult(1, 0, [parent], {}, [(fn, decision)], None, evaluation.ZERO_COST)


def test_notes_list_helpful_changes_and_count_calls_once():
    learner, parent = learners.TextNotes(initial_calls=4), text("one", 0.1, 0.1, 0.1, 0.1)
    good = text("two", 1.0, 1.0, note="Add.", tried=[[0, 1]], before=0.1, after=0.2)
    good = good.with_evaluation(
        good.candidate or Candidate("x", ""),
        evaluation.Evaluation(2.0, (1.0, 1.0), {dataset_evaluator.CALLS_METRIC: 4.0}),
        2.0,
    )
    learner.learn(make_result(good, "accept", parent))
    assert learner.calls == 4 + 2 + 2 + 4
    assert learner.advise(Random(0)) == {"worked": ["Add."]}
    bad = text("three", note="Drop.", tried=[[0, 1]], before=0.1, after=0.1)
    learner.learn(make_result(bad.with_evaluation(bad.candidate), "reject", parent))  # type: ignore[arg-type]
    assert learner.calls == 12 + 2  # the parent was evaluated on that batch before
    assert learner.advise(Random(0)) == {"worked": ["Add."], "failed": ["Drop."]}


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
