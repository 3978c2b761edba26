"""Repair of a repository of more than 100 files and 300 kB with ten planted faults, by a scripted agent with tools.

    scripts/bench repair                     # about three minutes

The agent knows no fix. It reads the prompt, searches and reads functions with the tools, tries small changes of the
functions that the prompt shows first, tests each one, and stops when the checks pass. One fault is planted at a time;
the last table has all ten at once. The exit status is 1 if the prompt lacks more than one faulty function, or the agent
mends fewer than eight.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from atoll import executor, sandbox, store, system, testing
from atoll.mind import build
from atoll.mind.config import Options, Task
from atoll.mind.workspace import build as workspace_build
from atoll.mind.workspace import edits
from bench import fault_repository, outcome

SNIPPET = re.compile(r"^FILE: (\S+), lines (\d+)-(\d+) \(([^)\n]+)\)\n```\n(.*?)\n```", re.MULTILINE | re.DOTALL)
MAX_TOOLS = 60
MAX_FUNCTIONS = 4


class Agent:
    """Scripted LLM that uses the tools. One object works on one plan."""

    def __init__(self) -> None:
        self.prompt, self.calls = "", 0
        self._script: Iterator[str] | None = None
        self._output = ""

    def __call__(self, iteration: int, call: str, prompt: str) -> str:
        self.calls += 1
        self._output = prompt[-4000:]
        if self._script is None:
            self.prompt = prompt
            self._script = self._work()
        return next(self._script, "DONE")

    def _work(self) -> Iterator[str]:
        snippets = [match for match in SNIPPET.findall(self.prompt) if "test" not in match[0]][:MAX_FUNCTIONS]
        first = snippets[0]
        yield f"I look at the first suspect.\nTOOL: search {first[3]}\nTOOL: read {first[0]} {first[1]}-{first[2]}"
        for path, _, _, _, source in snippets:
            current = source
            for variant in _make_variants(source):
                yield f"{_make_block(path, current, variant)}\nTOOL: test"
                current = variant
                if "checks pass" in self._output.rpartition("Output of test")[2]:
                    yield "DONE"
                    return
            if current != source:
                yield f"{_make_block(path, current, source)}\nTOOL: list company/services"


def _make_block(path: str, old: str, new: str) -> str:
    return f"FILE: {path}\n<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"


def _make_variants(source: str) -> list[str]:
    """Returns the function with one swapped token each."""
    return [variant.rstrip("\n") for _, variant in edits.generate_swaps(f"{source}\n")]


def make_context(folder: Path, model: Any) -> system.BuildContext:
    config = executor.ExecutorConfig(sandbox.Limits(seconds=60.0), is_unsafe=True)
    return system.BuildContext(folder, model, config, 1, 0, store.MemoryBlobs())


def mend(folder: Path, faults: Sequence[fault_repository.Fault]) -> dict[str, Any]:
    """Plants faults, lets the agent work, and returns the prompt and the result."""
    repository = fault_repository.make(folder / "project", faults)
    agent = Agent()
    built = build.build(
        Task(problem="workspace", repository="project", tests="tests"),
        Options(num_islands=1, num_gens=1, num_convs=1, num_seq=1, num_tools=MAX_TOOLS),
        make_context(folder, testing.ScriptedLLM(agent)),
    )
    evolver = system.SystemEvolver(built.config, built.report, built.close)
    evolver.run()
    assert built.summarize_result is not None
    files = list(repository.rglob("*.py"))
    return {
        "solved": built.summarize_result(evolver)["solved"] == 1,
        "prompt": agent.prompt,
        "calls": agent.calls,
        "files": len(files),
        "bytes": sum(path.stat().st_size for path in files),
    }


def is_shown(prompt: str, fault: fault_repository.Fault) -> bool:
    return f"def {fault_repository.get_function(fault)}(" in prompt


def describe_all(folder: Path) -> str:
    """Returns the text of the task with all ten faults at once."""
    fault_repository.make(folder / "project", fault_repository.FAULTS)
    task = Task(problem="workspace", repository="project", tests="tests")
    problem_set = workspace_build.load_problem_set(task, Options(), make_context(folder, object()))
    try:
        return problem_set.problems[0].text
    finally:
        problem_set.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=len(fault_repository.FAULTS), help="number of faults")
    args = parser.parse_args()
    rows, num_shown, num_mended, size = list[list[object]](), 0, 0, (0, 0)
    for fault in fault_repository.FAULTS[: args.num]:
        with tempfile.TemporaryDirectory(prefix="atoll-bench-") as name:
            result = mend(Path(name), [fault])
        shown, size = is_shown(result["prompt"], fault), (result["files"], result["bytes"])
        num_shown, num_mended = num_shown + shown, num_mended + result["solved"]
        label = f"{fault_repository.get_function(fault)}: {fault.right} -> {fault.wrong}"
        where = "own test" if fault.has_test else "test of a service"
        answers = ["yes" if shown else "no", len(result["prompt"]), "yes" if result["solved"] else "no"]
        rows.append([label, where, *answers, result["calls"]])
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as name:
        text = describe_all(Path(name))
    num_together = sum(is_shown(text, fault) for fault in fault_repository.FAULTS)
    columns = ["fault", "what fails", "function in the prompt", "characters of the prompt", "mended", "calls"]
    notes = [
        f"The repository has {size[0]} Python files with {size[1]:,} bytes. The prompt holds the faulty function in "
        f"{num_shown} of {len(rows)} cases, and the agent mends {num_mended}. With all ten faults at once, the prompt "
        f"of {len(text):,} characters holds {num_together} of them."
    ]
    outcome.keep("repair", {"One fault at a time": (columns, rows)}, notes)
    return 0 if num_shown >= len(rows) - 1 and num_mended >= 0.8 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
