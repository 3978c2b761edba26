"""A workspace run for kill tests: forks, edits, tests, discards, archives and merges worldlines.

python -m tests.mind.workspace.victim FOLDER NUM_WORLDLINES
"""

import os
import sys
from pathlib import Path

from atoll import executor, sandbox
from atoll.mind import workspace
from atoll.mind.actions import Edit
from atoll.mind.worldline import BASE, Plan, Worldline

EXECUTOR = executor.ExecutorConfig(sandbox.Limits(seconds=20.0), is_unsafe=True)


def main(folder: Path, num_worldlines: int) -> None:
    log = os.open(folder.parent / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    done = {line.split()[0] for line in (folder.parent / "log").read_text().splitlines()}
    space = workspace.Workspace(folder, "run", num_worktrees=2)
    backend = workspace.GitBackend(space, workspace.WorkspaceRunner(space, EXECUTOR))
    os.write(log, b"open\n")
    for number in range(num_worldlines):
        if str(number) not in done:
            _run_worldline(backend, number)
            os.write(log, f"{number} done\n".encode())
    backend.close()


def _run_worldline(backend: workspace.GitBackend, number: int) -> None:
    space, name = backend.workspace, f"{number}.0"
    merged = {approval.worldline_id for approval in space.approvals if approval.verdict == "merged"}
    if name in merged:
        return
    plan = Plan(tuple(Edit(f"more/{name}_{part}.py", "", f"x = {part}\n" * 200) for part in range(4)))
    line = backend.run(backend.fork(Worldline(BASE), plan, name), plan)
    if number % 4 == 0:
        assert backend.test(line).score == 0.5
    if number % 3 == 0:
        space.decide(name, "approve", "Reviewer", commit=space.get_tip(name))
        space.merge(name)
        space.archive(name)
    elif number % 3 == 1:
        backend.archive(line)
    else:
        backend.discard(line)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
