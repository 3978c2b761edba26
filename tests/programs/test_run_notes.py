"""Notes on a run by an LLM: when they are due, how they are read, where they appear, and the same after a crash."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atoll import cluster, control, executor, llm, sandbox, store, system, testing
from atoll import journal as kinds
from atoll.llm import ensemble
from atoll.programs import build, run_notes
from atoll.programs.run_notes import RunNotes, parse_notes

ANSWER = (
    "HELPED: numbers near twelve\nFAILED: zero, because the caller divides by it\n"
    "TRY: powers of two\nTRY: primes\nTRY: sums\nTRY: roots\nTRY: logarithms\n"
)
TEMPLATE = "def value():\n    return 1.0\n"
EVALUATOR = """
def evaluate(path):
    names = {}
    exec(open(path).read(), names)
    return float(names["value"]())
"""


type Answer = Callable[[int, str, str], str]


class Script:
    """Writes a new number each time, or notes if it is asked for them."""

    def __init__(self, notes: str = ANSWER) -> None:
        self.notes, self.prompts = notes, dict[tuple[int, str], str]()

    def __call__(self, iteration: int, call: str, prompt: str) -> str:
        self.prompts[iteration, call] = prompt
        if "# Your notes" in prompt:
            return self.notes
        number = 1.5 + iteration / 10 if iteration < 15 else 1.2 + iteration / 1000  # then the run stagnates
        return f"```python\n# IDEA: number {iteration}\ndef value():\n    return {number:.4f}\n```"

    def list_positions(self, text: str) -> list[int]:
        return sorted(iteration for (iteration, _), prompt in self.prompts.items() if text in prompt)


def run(folder: Path, script: Answer, num_calls: int, window: int = 1, *, journal: Any = None, **options: Any):
    """Runs a folder with a scripted LLM; returns its LLM and its journal."""
    (folder / "initial_program.py").write_text(TEMPLATE)
    (folder / "evaluator.py").write_text(EVALUATOR)
    model = testing.ScriptedLLM(script)
    budget = control.Budget(calls=num_calls)
    executor_config = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)
    parts = system.BuildContext(
        folder, llm.JournaledLLM(model), executor_config, 1, 0, store.MemoryBlobs(), budget=budget, first_budget=budget
    )._replace(is_deterministic=True)
    settings: dict[str, Any] = {"engine_weights": {"tuner": 0.0}, **options}
    built = build.build(build.Task(), build.Options(**settings), parts)
    journal = journal or store.MemoryJournal()
    config = replace(built.config, journal=journal, budget=budget, num_parallel=1, ordered=True, window=window)
    try:
        cluster.Evolver(config).run()
    finally:
        built.close()
    return model, journal


def test_notes_are_counted_shown_and_their_directions_are_followed(tmp_path):
    script = Script()
    model, journal = run(tmp_path, script, 80)
    asked = script.list_positions("# Your notes")
    assert model.num_requests == 80
    assert len(asked) == 3  # after 20, 40 and 60 programs
    assert asked[0] == 21
    assert "Change: number 20" in script.prompts[21, "0"]
    assert "- Helped (+" in script.prompts[asked[1], "0"]  # measured gains stay beside the notes of the LLM
    assert "- Proposed, " in script.prompts[asked[1], "0"]  # the next notes see the earlier directions
    later = [prompt for (iteration, _), prompt in script.prompts.items() if iteration > 21]
    assert all("Helped: numbers near twelve" in prompt for prompt in later if "# Notes" in prompt)
    begun = {record.step: record.data["advice"] for record in journal.records if record.kind == kinds.ISSUED}
    followed = [iteration for iteration, advice in begun.items() if "direction" in advice]
    assert {begun[iteration]["operator"] for iteration in followed} >= {"spread", "challenge"}
    for iteration in followed:
        words = "this method: " if begun[iteration]["operator"] == "new" else "Try this: "
        assert f"{words}{begun[iteration]['direction']}" in script.prompts[iteration, "0"]
    directions = [begun[iteration]["direction"] for iteration in followed if 21 < iteration < asked[1]]
    assert len(set(directions[:5])) == len(directions[:5])  # they take turns


def test_notes_call_is_neither_evaluated_nor_a_program_of_the_population(tmp_path):
    script = Script()
    _, journal = run(tmp_path, script, 70)
    asked = script.list_positions("# Your notes")
    applied = {record.step: record.data["children"] for record in journal.records if record.kind == kinds.APPLIED}
    assert ["numbers near twelve" in str(applied[iteration]) for iteration in asked] == [True, True]
    assert not [record for record in journal.records if record.kind == kinds.EVALUATED and record.step in asked]
    parents = [parent for record in journal.records for parent in record.data.get("parents", ())]
    assert not {f"{iteration}.0" for iteration in asked} & set(parents)


@pytest.mark.parametrize(
    ("calls", "options", "count"), [(59, {}, 0), (59, {"run_notes": "llm"}, 2), (80, {"run_notes": "built"}, 0)]
)
def test_setting_and_budget_decide(tmp_path, calls, options, count):
    script = Script()
    model, _ = run(tmp_path, script, calls, **options)
    assert len(script.list_positions("# Your notes")) == count
    assert model.num_requests == calls


def test_weak_llm_gets_no_notes_by_default():
    def count_due(source: run_notes.NotesSource, valid_share: float) -> int:
        notes, num_due = RunNotes(source, 100), 0
        for _ in range(60):
            notes.count(1)
            num_due += notes.start(valid_share, 50)
        return num_due

    assert [count_due("auto", share) for share in (0.5, 0.9)] == [0, 3]
    assert [count_due("llm", share) for share in (0.5, 0.9)] == [3, 3]
    assert [count_due("built", share) for share in (0.5, 0.9)] == [0, 0]


def test_useless_answer_costs_one_call_and_keeps_the_old_notes(tmp_path):
    answers = iter([ANSWER, "I cannot help with that.", "Sorry."])
    script = Script()
    script_call = script.__call__

    def reply(iteration: int, call: str, prompt: str) -> str:
        text = script_call(iteration, call, prompt)
        return next(answers) if text == ANSWER else text

    model, _ = run(tmp_path, reply, 80)
    asked = script.list_positions("# Your notes")
    assert len(asked) == 3
    assert model.num_requests == 80
    assert any("numbers near twelve" in prompt for (i, _), prompt in script.prompts.items() if i > asked[2])


@pytest.mark.parametrize("window", [1, 4])
def test_killed_run_pays_nothing_twice_and_gets_the_same_notes(tmp_path, window):
    whole, second = Script(), Script()
    _, journal = run(tmp_path, whole, 80, window)
    asked = whole.list_positions("# Your notes")[0]
    response = next(i for i, r in enumerate(journal.records) if r.kind == kinds.RESPONSE and r.step == asked)
    for end in (response, response + 1, response + 3):
        killed = store.MemoryJournal()
        killed.records[:] = journal.records[:end]
        second.prompts.clear()
        run(tmp_path, second, 80, window, journal=killed)
        assert ((asked, "0") in second.prompts) == (end == response)
        assert all(whole.prompts[position] == prompt for position, prompt in second.prompts.items())
        assert whole.list_positions("# Your notes")[1:] == [
            iteration for iteration in second.list_positions("# Your notes") if iteration != asked
        ]


@pytest.mark.parametrize(
    "response",
    [
        ANSWER,
        ANSWER.lower(),
        "<think>\nTRY: nothing\n</think>\n" + ANSWER,
        "Here are the notes:\n\n" + "\n".join(f"- **{line.replace(':', ':**', 1)}" for line in ANSWER.splitlines()),
        "\n".join(f"{number}. {line}" for number, line in enumerate(ANSWER.splitlines(), 1)),
        "## HELPED\n- numbers near twelve\n\n## FAILED\n- zero, because the caller divides by it\n\n"
        "### TRY:\n1. powers of two\n2. primes\n3. sums\n4. roots\n5. logarithms\n6. a sixth\n",
        "```\n" + ANSWER + "```",
    ],
)
def test_notes_are_read_leniently(response):
    notes = parse_notes(response)
    assert notes is not None
    assert [text.lower() for text in notes.helped] == ["numbers near twelve"]
    assert [text.lower() for text in notes.failed] == ["zero, because the caller divides by it"]
    assert list(notes.directions) == ["powers of two", "primes", "sums", "roots", "logarithms"]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("`np.sin` and `np.cos` help", "`np.sin` and `np.cos` help"),
        ("**`sort()`**", "sort()"),
        ("`sort() first", "sort() first"),
    ],
)
def test_backticks_stay_in_pairs(text, note):
    notes = parse_notes(f"HELPED: {text}\n")
    assert notes is not None
    assert notes.helped == (note,)


@pytest.mark.parametrize(
    "response",
    ["", "def value():\n    return 1\n", "HELPED: none\nFAILED:\nTRY: ...", "HELPED: counting each pair only once"],
)
def test_empty_or_copied_notes_are_none(response):
    assert parse_notes(response) is None


@pytest.mark.parametrize(
    "response", ["*" * 400_000, "`" * 400_000, "1. " + "_" * 400_000, "HELPED" + " " * 200_000 + "1" * 200_000]
)
def test_line_of_marks_takes_no_long_time(response):
    start = time.process_time()
    assert parse_notes(response) is None
    assert time.process_time() - start < 5  # without possessive repeats: hours


def test_many_lines_take_no_long_time():
    start = time.process_time()
    notes = parse_notes("\n".join(f"TRY: idea {number}" for number in range(30_000)))
    assert notes is not None
    assert list(notes.directions) == [f"idea {number}" for number in range(5)]
    assert time.process_time() - start < 5


def test_tried_method_is_no_new_direction():
    notes = parse_notes("TRY: Primes.\nTRY: sums", {"primes"})
    assert notes is not None
    assert list(notes.directions) == ["sums"]


def test_gains_and_failures_are_apart_in_the_prompt(tmp_path):
    script = Script()
    run(tmp_path, script, 60)
    prompt = script.prompts[script.list_positions("# Your notes")[0], "0"]
    better, others = prompt.split("# Changes that raised")[1].split("# Changes that failed")
    assert "Change: number 14" in better
    assert "Change: number 15" in others.split("# Your notes")[0]


def test_cheapest_llm_writes_the_notes_and_no_router_learns_from_it():
    class Priced:
        def __init__(self, usd: float) -> None:
            self.price = llm.Price(usd, usd)

        def __call__(self, prompt: str) -> llm.Response:
            return llm.Response("text", "model")

    members = [ensemble.EnsembleMember("large", Priced(9.0)), ensemble.EnsembleMember("small", Priced(1.0))]
    unused = ensemble.EnsembleMember("free", Priced(0.0), 0.0)
    assert ensemble.find_cheapest(ensemble.EnsembleLLM([*members, unused])) == "small"
