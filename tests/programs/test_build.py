"""Runs of folders with a scripted LLM, by diffs, rewrites and crossover."""

import re
import shutil
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from atoll import cluster, control, errors, executor, sandbox, store, system, testing
from atoll.llm import JournaledLLM
from atoll.programs import build

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"minimum": ROOT / "examples/programs_minimum", "swing": ROOT / "bench/tasks/swing"}


class NumberChanger:
    """Changes one number: as a diff if the prompt asks for one, else in the complete program."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, step: int, call: str, prompt: str) -> str:
        self.prompts.append(prompt)
        program = re.search(r"^# Current program\n```python\n(.*?)^```", prompt, re.M | re.S)
        assert program is not None
        line = next(line for line in program[1].splitlines() if re.search(r"DECAY = |for _ in range", line))
        new = re.sub(r"= .*|range\(num_tries.*?\)", lambda match: _change_number(match[0], step), line)
        if "<<<<<<< SEARCH" in prompt:
            return f"<<<<<<< SEARCH\n{line}\n=======\n{new}\n>>>>>>> REPLACE"
        return f"```python\n{program[1].replace(line, new)}```"


def _change_number(match: str, step: int) -> str:
    number = Random(step).randint(1, 99)
    return f"= 0.{number:02d}" if match.startswith("=") else f"range(num_tries - {number % 50})"


def run(
    folder: Path, script, *, iterations: int = 6, **options
) -> tuple[cluster.Evolver, system.BuiltSystem, store.MemoryJournal]:
    sections = build.discover(folder)
    assert sections is not None
    task = build.Task(**sections["task"])
    chosen = build.Options(**{**sections["programs"], "policy": "openevolve", "num_islands": 2, **options})
    journal = store.MemoryJournal()
    executor_config = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)
    parts = system.BuildContext(
        folder, JournaledLLM(testing.ScriptedLLM(script)), executor_config, 1, 0, store.MemoryBlobs()
    )
    built = build.build(task, chosen, parts)
    config = replace(
        built.config,
        journal=journal,
        budget=control.Budget(iterations=iterations),
        num_parallel=1,
        ordered=True,
        window=2,
    )
    evolver = cluster.Evolver(config)
    try:
        evolver.run()
    finally:
        built.close()
    return evolver, built, journal


def get_records(journal: store.MemoryJournal, kind: str):
    return [record.data for record in journal.records if record.kind == kind]


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("diff", [True, False])
def test_folder_evolves_with_diffs_and_with_rewrites(name, diff):
    script = NumberChanger()
    _, built, journal = run(FOLDERS[name], script, diff_based_evolution=diff, crossover=0.0)
    evaluated = [data for data in get_records(journal, "judged") if data.get("meta")]
    assert evaluated
    assert {data["meta"]["engine"] for data in evaluated} == {"diff" if diff else "rewrite"}
    assert not [data["failure"] for data in get_records(journal, "applied") if "failure" in data]
    assert built.report["engine"] == ("LLM, diffs" if diff else "LLM, full rewrites")
    assert any("# Previous attempts" in prompt for prompt in script.prompts)
    assert all(("<<<<<<< SEARCH" in prompt) == diff for prompt in script.prompts)


def test_prompt_lists_failure_reason_and_duplicate():
    def answer(step: int, call: str, prompt: str) -> str:
        prompts.append(prompt)
        if step == 1:
            return "I would rather not."
        return "<<<<<<< SEARCH\nDECAY = 0.5\n=======\nDECAY = 0.5  # a remark\n>>>>>>> REPLACE"

    prompts: list[str] = []
    _, _, journal = run(FOLDERS["swing"], answer, repair=False, crossover=0.0, num_islands=1)
    assert "has no program: 'I would rather not.'" in prompts[-1]
    assert "repeats the program in the prompt" in prompts[-1]
    assert not any(data["children"] for data in get_records(journal, "applied"))


def test_proposals_setting_makes_several_children():
    def answer(step: int, call: str, prompt: str) -> str:
        return f"<<<<<<< SEARCH\nDECAY = 0.5\n=======\nDECAY = 0.{step}{call}\n>>>>>>> REPLACE"

    _, _, journal = run(FOLDERS["swing"], answer, proposals=3, crossover=0.0, iterations=1, repair=False)
    assert len(get_records(journal, "applied")[0]["children"]) == 3


def test_settings_reach_templates_population_and_diff_pattern(tmp_path):
    folder = tmp_path / "swing"
    shutil.copytree(FOLDERS["swing"], folder)
    (folder / "mine").mkdir()
    (folder / "mine" / "full_rewrite_user.txt").write_text(
        "MINE\n# Current program\n```python\n{current_program}\n```\n{answer}"
    )
    script = NumberChanger()
    _, built, _ = run(folder, script, template_dir="mine", population="front", crossover=0.0)
    assert all("\nMINE\n" in f"\n{prompt}" for prompt in script.prompts)
    assert built.report["population"] == "front"
    with pytest.raises(errors.SetupError, match=r"Folder .* not found"):
        run(folder, script, template_dir="yours")
    with pytest.raises(errors.SetupError, match="Write START"):
        run(folder, script, diff_pattern="x")


def test_program_too_long_for_prompts_fails_the_proposal_only():
    def answer(step: int, call: str, prompt: str) -> str:
        value = "1 + " * 2_000 + "1" if step < 3 else f"0.{step}"
        return f"<<<<<<< SEARCH\nDECAY = 0.5\n=======\nDECAY = {value}\n>>>>>>> REPLACE"

    _, _, journal = run(FOLDERS["swing"], answer, repair=False, crossover=0.0, prompt_chars=8_000, num_islands=1)
    applied = get_records(journal, "applied")
    assert ["The limit is 4000." in str(data.get("failure")) for data in applied[:3]] == [True, True, False]


@pytest.mark.parametrize("population", ["grid", "clusters"])
def test_crossover_combines_two_members_of_a_population(population):
    _, _, journal = run(
        FOLDERS["swing"], NumberChanger(), population=population, crossover=1.0, iterations=8, num_islands=1
    )
    engines = {data["meta"]["engine"] for data in get_records(journal, "judged") if data.get("meta")}
    assert "cross" in engines


def test_same_seed_and_responses_give_same_run():
    one, two = (run(FOLDERS["swing"], NumberChanger(), num_islands=2)[2] for _ in range(2))
    contents = [
        [(record.kind, record.step, str(record.data.get("content"))) for record in item.records] for item in (one, two)
    ]
    assert contents[0] == contents[1]
