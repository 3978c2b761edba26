"""Folders with a model that follows a script, in all ways of asking."""

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


class Script:
    """Answers with a changed number: as a diff where one is asked for, else in the program that it was shown."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, step: int, call: str, prompt: str) -> str:
        self.prompts.append(prompt)
        program = re.search(r"^# Current program\n```python\n(.*?)^```", prompt, re.M | re.S)
        assert program is not None
        line = next(line for line in program[1].splitlines() if re.search(r"DECAY = |for _ in range", line))
        new = re.sub(r"= .*|range\(num_tries.*?\)", lambda found: _changed(found[0], step), line)
        if "<<<<<<< SEARCH" in prompt:
            return f"<<<<<<< SEARCH\n{line}\n=======\n{new}\n>>>>>>> REPLACE"
        return f"```python\n{program[1].replace(line, new)}```"


def _changed(found: str, step: int) -> str:
    number = Random(step).randint(1, 99)
    return f"= 0.{number:02d}" if found.startswith("=") else f"range(num_tries - {number % 50})"


def run(
    folder: Path, script, *, iterations: int = 6, **options
) -> tuple[cluster.Evolver, system.BuiltSystem, store.MemoryJournal]:
    sections = build.discover(folder)
    assert sections is not None
    task = build.Task(**sections["task"])
    chosen = build.Options(**{**sections["programs"], "num_islands": 2, **options})
    journal = store.MemoryJournal()
    place = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)
    parts = system.BuildContext(folder, JournaledLLM(testing.ScriptedLLM(script)), place, 1, 0, store.MemoryBlobs())
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


def of_kind(journal: store.MemoryJournal, kind: str):
    return [record.data for record in journal.records if record.kind == kind]


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("diff", [True, False])
def test_a_folder_evolves_with_diffs_and_with_whole_programs(name, diff):
    script = Script()
    _, built, journal = run(FOLDERS[name], script, diff_based_evolution=diff, crossover=0.0)
    judged = [data for data in of_kind(journal, "judged") if data.get("meta")]
    assert judged
    assert {data["meta"]["engine"] for data in judged} == {"diff" if diff else "rewrite"}
    assert not [data["failure"] for data in of_kind(journal, "applied") if "failure" in data]
    assert built.report["engine"] == ("LLM, diffs" if diff else "LLM, full rewrites")
    assert any("# Previous attempts" in prompt for prompt in script.prompts)
    assert all(("<<<<<<< SEARCH" in prompt) == diff for prompt in script.prompts)


def test_a_prompt_tells_of_a_failure_with_its_reason_and_of_a_repeat():
    def answer(step: int, call: str, prompt: str) -> str:
        prompts.append(prompt)
        if step == 1:
            return "I would rather not."
        return "<<<<<<< SEARCH\nDECAY = 0.5\n=======\nDECAY = 0.5  # a remark\n>>>>>>> REPLACE"

    prompts: list[str] = []
    _, _, journal = run(FOLDERS["swing"], answer, repair=False, crossover=0.0, num_islands=1)
    assert "has no program: 'I would rather not.'" in prompts[-1]
    refused = [child["decision"] for data in of_kind(journal, "applied") for child in data["children"]]
    assert {(decision[0], decision[2]) for decision in refused} == {("reject", "novelty")}
    assert "refused" in prompts[-1]


def test_several_proposals_make_several_children_of_a_step():
    def answer(step: int, call: str, prompt: str) -> str:
        return f"<<<<<<< SEARCH\nDECAY = 0.5\n=======\nDECAY = 0.{step}{call}\n>>>>>>> REPLACE"

    _, _, journal = run(FOLDERS["swing"], answer, proposals=3, crossover=0.0, iterations=1, repair=False)
    assert len(of_kind(journal, "applied")[0]["children"]) == 3


def test_the_settings_reach_their_parts(tmp_path):
    folder = tmp_path / "swing"
    shutil.copytree(FOLDERS["swing"], folder)
    (folder / "mine").mkdir()
    (folder / "mine" / "full_rewrite_user.txt").write_text(
        "MINE\n# Current program\n```python\n{current_program}\n```\n{answer}"
    )
    script = Script()
    _, built, _ = run(folder, script, template_dir="mine", population="front", crossover=0.0)
    assert all(prompt.startswith("MINE\n") for prompt in script.prompts)
    assert built.report["population"] == "front"
    with pytest.raises(errors.SetupError, match=r"Folder .* not found"):
        run(folder, script, template_dir="yours")
    with pytest.raises(errors.SetupError, match="Write START"):
        run(folder, script, diff_pattern="x")


def test_a_program_that_could_not_be_shown_again_is_a_failed_proposal_and_the_run_goes_on():
    def answer(step: int, call: str, prompt: str) -> str:
        value = "1 + " * 2_000 + "1" if step < 3 else f"0.{step}"
        return f"<<<<<<< SEARCH\nDECAY = 0.5\n=======\nDECAY = {value}\n>>>>>>> REPLACE"

    _, _, journal = run(FOLDERS["swing"], answer, repair=False, crossover=0.0, prompt_chars=8_000, num_islands=1)
    applied = of_kind(journal, "applied")
    assert ["The limit is 4000." in str(data.get("failure")) for data in applied[:3]] == [True, True, False]


@pytest.mark.parametrize("pool", ["grid", "clusters"])
def test_a_crossover_combines_two_members_of_a_pool(pool):
    _, _, journal = run(FOLDERS["swing"], Script(), population=pool, crossover=1.0, iterations=8, num_islands=1)
    engines = {data["meta"]["engine"] for data in of_kind(journal, "judged") if data.get("meta")}
    assert "cross" in engines


def test_the_engine_is_a_function_of_its_task():
    one, two = (run(FOLDERS["swing"], Script(), num_islands=2)[2] for _ in range(2))
    kept = [
        [(record.kind, record.step, str(record.data.get("content"))) for record in each.records] for each in (one, two)
    ]
    assert kept[0] == kept[1]
