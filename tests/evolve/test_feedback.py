"""Feedback of the evaluator reaches the next prompt word for word, for every kind of candidate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import atoll
from atoll.programs.gepa import text_parts

FEEDBACK = "It is 17 % too low; the word “naïve” is missing."
INSTANCES = ["first", "second"]


def double(x):
    """Returns twice the number."""
    return x + 1.0


def evaluate_function(fn: Any) -> tuple[float, str]:
    return float(fn(2.0)), FEEDBACK


def evaluate_function_on(fn: Any, instance: str) -> tuple[float, str]:
    return float(fn(2.0)), f"{FEEDBACK} ({instance})"


def evaluate_length(candidate: Any) -> tuple[float, str]:
    return float(len(str(candidate))), FEEDBACK


def evaluate_length_on(candidate: Any, instance: str) -> tuple[float, str]:
    return float(len(str(candidate))), f"{FEEDBACK} ({instance})"


def evaluate_path(path: Path) -> tuple[float, str]:
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return float(sum(len(file.read_text()) for file in files)), FEEDBACK


def evaluate_path_on(path: Path, instance: str) -> tuple[float, str]:
    score, feedback = evaluate_path(path)
    return score, f"{feedback} ({instance})"


def evaluate_values(values: dict[str, float]) -> tuple[float, str]:
    return values["rate"], FEEDBACK


def evaluate_values_on(values: dict[str, float], instance: str) -> tuple[float, str]:
    return values["rate"], f"{FEEDBACK} ({instance})"


def make_file(folder: Path) -> Path:
    (folder / "program.py").write_text("X = 1\n")
    return folder / "program.py"


def make_folder(folder: Path) -> Path:
    make_file(folder)
    (folder / "b.txt").write_text("one\n")
    return folder


KINDS: dict[str, tuple[Callable[[Path], Any], Any, Any, Callable[[int], str]]] = {
    "function": (
        lambda folder: double,
        evaluate_function,
        evaluate_function_on,
        lambda number: f"```python\ndef double(x):\n    return x + {number}.5\n```",
    ),
    "file": (make_file, evaluate_path, evaluate_path_on, lambda number: f"```python\nX = {'1' * number}2\n```"),
    "folder": (
        make_folder,
        evaluate_path,
        evaluate_path_on,
        lambda number: f"```\n=== FILE program.py ===\nX = {'1' * number}\n=== FILE b.txt ===\ntwo\n```",
    ),
    "program text": (
        lambda folder: "def f(x):\n    return x\n",
        evaluate_length,
        evaluate_length_on,
        lambda number: f"```python\ndef f(x):\n    return x + {number}\n```",
    ),
    "text": (
        lambda folder: "Answer briefly.",
        evaluate_length,
        evaluate_length_on,
        lambda number: f"```text\nAnswer {'very ' * number}briefly.\n```",
    ),
    "dict of texts": (
        lambda folder: {"system": "Answer.", "user": "Ask."},
        evaluate_length,
        evaluate_length_on,
        lambda number: f"```text\nAnswer {'very ' * number}briefly.\n```",
    ),
    "parameters": (
        lambda folder: {"rate": (0.1, 0.0, 1.0), "mode": ("slow", ["slow", "fast"])},
        evaluate_values,
        evaluate_values_on,
        lambda number: f'```json\n{{"rate": {min(0.1 + number / 50, 1)}, "mode": "fast"}}\n```',
    ),
}


@pytest.mark.parametrize("has_data", [False, True], ids=["no data", "data"])
@pytest.mark.parametrize("kind", KINDS)
def test_feedback_reaches_next_prompt_word_for_word(kind, has_data, tmp_path):
    make, evaluate, evaluate_on, write = KINDS[kind]
    prompts = list[str]()

    def model(prompt: str) -> str:
        prompts.append(str(prompt))
        return f"IDEA: larger.\n{write(len(prompts))}"

    data: dict[str, Any] = {"data": INSTANCES} if has_data else {}
    budget = "40evals" if kind in ("function", "parameters") else "12evals"
    result = atoll.evolve(
        make(tmp_path), evaluate_on if has_data else evaluate, llm=model, budget=budget, workers=1, unsafe=True, **data
    )
    assert len(prompts) > 1
    assert result.score > result.initial_score
    for prompt in prompts:
        assert FEEDBACK in prompt
        if has_data:
            assert all(f"{FEEDBACK} ({instance})" in prompt for instance in INSTANCES)
        assert f"score {result.initial_score:g}" in prompts[0]
    assert "# Task" in prompts[0] or not has_data


def test_purpose_and_overall_score_are_in_prompt():
    prompts = list[str]()

    def count_words(text: str, instance: str) -> float:
        """Scores an instruction for summaries by its words."""
        return min(1.0, len(text.split()) / 10)

    def model(prompt: str) -> str:
        prompts.append(str(prompt))
        return f"IDEA: longer.\n```text\n{'word ' * len(prompts)}\n```"

    atoll.evolve("Be brief.", count_words, data=INSTANCES, llm=model, budget="12evals", workers=1)
    assert "Scores an instruction for summaries by its words." in prompts[0]
    assert "Text to improve: score 0.2, the best so far" in prompts[0]
    atoll.evolve("Be brief.", count_words, data=INSTANCES, llm=model, budget="4evals", objective="Short summaries.")
    assert "Short summaries." in prompts[-1]


def test_perfect_start_costs_no_llm_call():
    def model(prompt: str) -> str:
        raise AssertionError("the LLM was called")

    with_target = atoll.evolve("Be brief.", lambda text: 1.0, llm=model, target=1.0)
    assert "reached" in with_target.reason
    splits: list[dict[str, Any]] = [{"data": INSTANCES}, {"data": INSTANCES, "validation": ["third"]}]
    for data in splits:
        result = atoll.evolve("Be brief.", lambda text, instance: 1.0, llm=model, **data)
        assert result.cost.llm_calls == 0
        assert "every instance has the score 1" in result.reason


@pytest.mark.parametrize("data", [{}, {"data": INSTANCES}])
def test_repeating_llm_stops_run_with_reason(data):
    prompts = list[str]()

    def model(prompt: str) -> str:
        prompts.append(str(prompt))
        return "IDEA: same.\n```text\nThe same text.\n```"

    result = atoll.evolve("Be brief.", lambda *arguments: 0.5, llm=model, budget="100evals", **data)
    assert len(prompts) <= 12
    assert "the LLM gave nothing new in its last" in result.reason


def test_llm_that_copies_in_other_words_stops_run_later():
    prompts = list[str]()

    def model(prompt: str) -> str:
        prompts.append(str(prompt))
        return f"IDEA: idea {len(prompts)}.\n```text\nBe brief.\n```"

    result = atoll.evolve("Be brief.", lambda text, instance: 0.5, llm=model, budget="100evals", data=INSTANCES)
    assert 8 < len(prompts) <= 20
    assert "the LLM gave nothing new in its last" in result.reason


def test_rejected_changes_are_reported_as_measured():
    prompts = list[str]()

    def evaluate(text: str, instance: str) -> float:
        return 0.5 if text == "Be brief." else 0.25

    def model(prompt: str) -> str:
        prompts.append(str(prompt))
        return f"IDEA: idea {len(prompts)}.\n```text\n{'word ' * len(prompts)}\n```"

    atoll.evolve("Be brief.", evaluate, data=INSTANCES, llm=model, budget="12evals", workers=1)
    assert "mean 0.25 against 0.5 of its parent on 2 training instances. Change: idea 1" in prompts[1]
    assert "did not help" not in prompts[-1].lower()


def test_llm_that_copies_the_text_is_asked_for_lines_to_add():
    prompts = list[str]()

    def model(prompt: str) -> str:
        prompts.append(str(prompt))
        if "write lines to add" in str(prompt):
            return f"```\n- Rule {len(prompts)}.\n```"
        return f"IDEA: {len(prompts)}.\n```text\nBe brief.\n```"

    def evaluate(text: str, instance: str) -> float:
        return min(1.0, text.count("Rule") / 3)

    result = atoll.evolve("Be brief.", evaluate, data=INSTANCES, llm=model, budget="60evals", workers=1)
    assert result.best.startswith("Be brief.\n- Rule")
    assert result.score > 0
    assert any("complete new text" in prompt for prompt in prompts)


def score_by_examples(text: str, instance: dict[str, str]) -> tuple[float, str]:
    return float(f"answer: {instance['answer']}" in text), f"{instance['answer']} is right"


def make_instances(first: int, count: int) -> list[dict[str, str]]:
    return [{"input": f"number {index}", "answer": "ABC"[index % 3]} for index in range(first, first + count)]


@pytest.mark.parametrize("has_llm", [True, False])
def test_training_instances_become_examples_if_validation_agrees(has_llm):
    def model(prompt: str) -> str:
        return f"IDEA: longer.\n```text\nName the class. {len(str(prompt))}\n```"

    data: dict[str, Any] = {"data": make_instances(0, 12), "validation": make_instances(100, 6)}
    options = {**data, "llm": model if has_llm else None, "budget": "400evals"}
    result = atoll.evolve("Name the class.", score_by_examples, **options)
    assert result.score > 0.5
    assert "Examples:\ninput: number " in result.best
    assert not any(f"number {index}" in result.best for index in range(100, 106))  # the validation set
    without = atoll.evolve("Name the class.", score_by_examples, examples=False, **options)
    assert without.score == 0.0


def test_examples_replace_earlier_ones_but_not_those_of_the_user():
    examples = ["input: 1\n\nlong\nanswer: A", "input: 2\nanswer: B", "input: 3\nanswer: C"]
    proposer = text_parts.ExampleProposer(text_parts.RandomTextProposer(), examples)
    remove = proposer._remove_examples
    assert remove(f"Do it.\n\nExamples:\n{examples[1]}\n\n{examples[0]}") == "Do it."
    own = "Do it.\n\nExamples:\ninput: 9\nanswer: Z\n\nBe brief."
    assert remove(own) == own
    assert remove(f"{own}\n\nExamples:\n{examples[2]}") == own
