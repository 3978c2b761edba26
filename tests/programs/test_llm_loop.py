"""The loop with a scripted LLM: the best program in prompts and as parent, feedback word for word, repairs, tuning."""

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atoll import cluster, control, executor, sandbox, store, system, testing
from atoll.llm import JournaledLLM
from atoll.programs import build

PROGRAM = '# EVOLVE-BLOCK-START\ndef value():\n    """Returns a number."""\n    return 1.0\n# EVOLVE-BLOCK-END\n'
EVALUATOR = """
import importlib.util

def evaluate(path):
    spec = importlib.util.spec_from_file_location("program", path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    try:
        return {"combined_score": float(program.value()), "digits": 0.1234567891}
    except Exception as error:
        return {"combined_score": -20.0, "error": f"{type(error).__name__}: {error}"}
"""
CONFIG = "max_iterations: 1000\nprompt:\n  system_message: Return a large number.\ndatabase:\n  num_islands: 4\n"

NO_TUNER = {"tuner": 0.0}

type Reply = Callable[[int, str, str], str]


def make_folder(path: Path, evaluator: str = EVALUATOR, program: str = PROGRAM) -> Path:
    for name, text in (("initial_program.py", program), ("evaluator.py", evaluator), ("config.yaml", CONFIG)):
        (path / name).write_text(text)
    return path


def run(folder: Path, reply: Reply, num_calls: int, window: int = 2, *, is_deterministic: bool = False, **options: Any):
    """Runs a folder with a scripted LLM; returns the built system, its journal and the prompts."""
    prompts = list[str]()

    def answer(step: int, call: str, prompt: str) -> str:
        prompts.append(prompt)
        return reply(step, call, prompt)

    sections = build.discover(folder)
    assert sections is not None
    budget = control.Budget(calls=num_calls)
    executor_config = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)
    llm = JournaledLLM(testing.ScriptedLLM(answer))
    parts = system.BuildContext(
        folder, llm, executor_config, 1, 0, store.MemoryBlobs(), budget=budget, first_budget=budget, target=99.0
    )._replace(is_deterministic=is_deterministic)
    built = build.build(build.Task(**sections["task"]), build.Options(**{**sections["programs"], **options}), parts)
    journal = store.MemoryJournal()
    config = replace(built.config, journal=journal, budget=budget, num_parallel=1, ordered=True, window=window)
    try:
        cluster.Evolver(config).run()
    finally:
        built.close()
    return built, journal, prompts


def list_children(journal: store.MemoryJournal) -> list[Mapping[str, Any]]:
    judged = [record.data for record in journal.records if record.kind == "judged"]
    return [data for data in judged if not data["label"].startswith("d") and data["id"] != "0.0"]


def write_program(number: float, idea: str = "larger") -> str:
    return f'```python\n# IDEA: {idea}\ndef value():\n    """Returns a number."""\n    return {number!r}\n```'


def test_strong_model_is_exploited(tmp_path):
    """One reply in four is better than all before it. The folder's configuration asks for four islands."""
    counter = itertools.count(1)

    def reply(step: int, call: str, prompt: str) -> str:
        number = next(counter)
        return write_program(1.0 + number if number % 4 == 2 else -0.001 * number)

    built, journal, prompts = run(make_folder(tmp_path), reply, 24, engine_weights=NO_TUNER)
    assert "config.yaml allows 4" in str(built.report["islands"])
    children = list_children(journal)
    best_id, best, parents = "0.0", 1.0, list[str]()
    for child in children:
        parents.append("best" if child["parents"][0] == best_id else "start" * (child["parents"][0] == "0.0"))
        if child["evaluation"]["score"] > best:
            best_id, best = child["id"], child["evaluation"]["score"]
    later = Counter(parents[4:])
    assert later["best"] >= 0.35 * later.total()
    assert later["start"] <= 0.1 * later.total()
    with_best = [
        f"return {float(re.findall(r'Best score so far: ([-0-9.]*[0-9])', prompt)[0])!r}" in prompt
        for prompt in prompts[4:]
    ]
    assert sum(with_best) >= 0.9 * len(with_best)
    assert all("Target: 99." in prompt and "of 24 calls left." in prompt for prompt in prompts)


def test_feedback_and_artifacts_reach_the_next_prompt_word_for_word(tmp_path):
    feedback = "Do not use recursion. It's 50 % too slow:\n  stage 1: 0.25 s\n\ttabs stay <b>&amp;</b> {braces} %s"
    evaluator = EVALUATOR + (
        f"\n_evaluate = evaluate\ndef evaluate(path):\n    from types import SimpleNamespace\n"
        f"    print('stage 1 took 3 s')\n"
        f"    return SimpleNamespace(metrics=_evaluate(path), artifacts={{'notes': {feedback!r}}})\n"
    )
    _, _, prompts = run(make_folder(tmp_path, evaluator), lambda step, call, prompt: write_program(step), 6, 1)
    assert all(feedback in prompt for prompt in prompts)
    assert all("stage 1 took 3 s" in prompt for prompt in prompts)
    assert all("digits: 0.123456789" in prompt for prompt in prompts)


def test_failure_is_listed_with_its_error_and_never_shown_as_a_program(tmp_path):
    def reply(step: int, call: str, prompt: str) -> str:
        if "Program to repair" in prompt:
            return write_program(0.5 + step / 100, "repaired")
        return "```python\n# IDEA: divide\ndef value():\n    return 1 / 0  # step " + str(step) + "\n```"

    _, journal, prompts = run(make_folder(tmp_path), reply, 12, 1)
    assert "failed: ZeroDivisionError: division by zero. Change: divide" in prompts[1]
    repairs = [prompt for prompt in prompts if "Program to repair" in prompt]
    assert repairs
    assert all("ZeroDivisionError: division by zero" in prompt for prompt in repairs)
    assert not [prompt for prompt in prompts if prompt not in repairs and "return 1 / 0" in prompt]
    rejected = [
        child["decision"]
        for record in journal.records
        if record.kind == "applied"
        for child in record.data["children"]
        if child["decision"][0] == "reject"
    ]
    assert rejected
    assert all("ZeroDivisionError" in decision[1] for decision in rejected)


@pytest.mark.parametrize("answer", ["I would rather not.", f"```python\n{PROGRAM}```"])
def test_second_call_after_a_useless_answer_is_a_new_prompt(tmp_path, answer):
    def reply(step: int, call: str, prompt: str) -> str:
        return answer if "could not be used" not in prompt else write_program(step + 1)

    _, journal, prompts = run(make_folder(tmp_path), reply, 4, 1, engine_weights=NO_TUNER)
    assert "could not be used" not in prompts[0]
    assert "Your last answer could not be used" in prompts[1]
    assert "You answered:" not in prompts[1]
    assert len(list_children(journal)) == 2


def test_deterministic_prompts_show_no_measured_times(tmp_path):
    folder = make_folder(tmp_path)
    runs = [
        run(
            folder,
            lambda step, call, prompt: write_program(step % 5 + step / 100),
            16,
            is_deterministic=is_deterministic,
        )[2]
        for is_deterministic in (True, True, False)
    ]
    assert runs[0] == runs[1]
    assert not any("evaluation time" in prompt for prompt in runs[0])
    assert all("evaluation time" in prompt for prompt in runs[2])


def test_prompts_are_never_the_same_twice(tmp_path):
    _, _, prompts = run(make_folder(tmp_path), lambda step, call, prompt: write_program(-step), 24)
    assert len(set(prompts)) == len(prompts)


def test_new_best_is_tuned_and_the_gain_is_credited_to_the_tuner(tmp_path):
    def reply(step: int, call: str, prompt: str) -> str:
        return (
            "```python\n# IDEA: a parabola\ndef value():\n    x = 5.0  # tunable: 0.0..10.0\n"
            f"    return 10.0 - (x - 7.0) ** 2 + {step} / 1000\n```"
        )

    _, journal, prompts = run(make_folder(tmp_path), reply, 3, 1)
    by_engine = {child["meta"]["engine"]: child for child in list_children(journal) if child["id"].startswith("1.")}
    assert by_engine["tuner"]["evaluation"]["score"] > by_engine["rewrite"]["evaluation"]["score"] + 3
    assert by_engine["tuner"]["meta"]["idea"] == "a parabola (constants tuned)"
    assert by_engine["rewrite"]["meta"]["idea"] == "a parabola"
    assert "x = 5.0  # tunable" not in prompts[1]  # the tuned program is the next parent
    _, journal, _ = run(make_folder(tmp_path), reply, 3, 1, engine_weights=NO_TUNER)
    assert {child["meta"]["engine"] for child in list_children(journal)} == {"rewrite"}


def test_syntax_mutator_works_beside_the_llm_if_asked(tmp_path):
    weights = {"syntax": 1.0, "llm": 1.0, "tuner": 0.0}
    _, journal, _ = run(
        make_folder(tmp_path), lambda step, call, prompt: write_program(1 + step / 100), 8, 1, engine_weights=weights
    )
    engines = Counter(child["meta"]["engine"] for child in list_children(journal))
    assert engines["syntax"]
    assert engines["rewrite"]


def test_failing_initial_program_is_repaired_first(tmp_path):
    program = PROGRAM.replace("return 1.0", "return missing")
    _, _, prompts = run(
        make_folder(tmp_path, program=program), lambda s, c, p: write_program(float(s)), 3, 1, engine_weights=NO_TUNER
    )
    assert "# Program to repair: score -20" in prompts[0]
    assert "NameError: name 'missing' is not defined" in prompts[0]
    assert "# Program to improve: score 1" in prompts[1]


def test_policy_openevolve_shows_coordinates_and_previous_attempts(tmp_path):
    _, _, prompts = run(
        make_folder(tmp_path), lambda step, call, prompt: write_program(step), 12, 2, policy="openevolve"
    )
    assert "Features: complexity = " in prompts[-1]
    assert "# Previous attempts" in prompts[-1]
    assert "# State" not in prompts[-1]
