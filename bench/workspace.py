"""Cost of a workspace worldline: forked, edited, tested and discarded in a repository of 1,000 files.

    scripts/bench workspace                  # 100 worldlines; about a minute
    scripts/bench workspace --num 20         # fewer

For comparison: the same with the git commands of a user, and worldlines without a worktree. Overhead is the time of a
worldline without its tests; git time is the time of git processes in it. The exit status is 1 if the main worktree
changed or files were left behind.
"""

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import median

from atoll import executor, sandbox
from atoll.mind import workspace
from atoll.mind.actions import Edit
from atoll.mind.worldline import BASE, Plan, Worldline
from bench import outcome

NUM_FILES = 1000
BAR_MS = 100.0
PARTS = ("fork", "edit", "diff", "test", "discard")
TEST = (
    "import unittest\nimport m0\nclass T(unittest.TestCase):\n    def test_it(self): self.assertEqual(m0.f0(1), {})\n"
)
ENV = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
ENV |= {f"GIT_{role}_{part}": "bench@here" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, env=ENV, capture_output=True, text=True, check=True).stdout


def make(folder: Path) -> Path:
    """Makes a repository of 1,000 modules in 280 folders; one module is wrong."""
    rng = Random(0)
    for number in range(NUM_FILES - 1):
        path = folder / (f"p{number % 40}/q{number % 7}" if number else ".") / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"def f{k}(x): return x + {rng.randrange(10**9)}\n" for k in range(30)))
    (folder / "test_m0.py").write_text(TEST.format(2))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin")
    return folder


def look(folder: Path) -> str:
    """Returns a hash of the main worktree: files, times, index, branch."""
    result = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name == ".git/index" or not name.startswith(".git"):
            body = path.read_bytes() if path.is_file() else b""
            result.update(repr((name, path.lstat().st_mtime_ns, path.lstat().st_ino, body)).encode())
    return result.hexdigest() + git(folder, "rev-parse", "HEAD")


def leftovers(folder: Path) -> list[str]:
    worktrees = git(folder, "worktree", "list", "--porcelain").split("\n\n")[1:]
    refs = git(folder, "for-each-ref", "--format=%(refname)", "refs/heads/atoll", "refs/atoll").split()
    locks = [str(path) for path in (folder / ".git").rglob("*.lock")]
    damage = git(folder, "fsck", "--no-dangling").split("\n")
    return [worktree.strip() for worktree in (*worktrees, *refs, *locks, *damage) if worktree.strip()]


def one(kind: workspace.GitBackend, name: str) -> Mapping[str, float]:
    """Runs one worldline. Returns its milliseconds by part."""
    calls = kind.workspace.repository.git
    plan = Plan((Edit("m0.py", "def f0(x): return x", f"def f0(x): return 2 or {name[1:]} or x"),))
    git_before, moments = calls.seconds, [time.perf_counter()]
    line = kind.fork(Worldline(BASE), plan, name)
    moments.append(time.perf_counter())
    line = kind.run(line, plan)
    moments.append(time.perf_counter())
    changes = kind.workspace.numstat(name)
    moments.append(time.perf_counter())
    result = kind.test(line)
    moments.append(time.perf_counter())
    kind.discard(line)
    moments.append(time.perf_counter())
    assert [change.path for change in changes] == ["m0.py"], changes
    assert result.score == 1.0, result
    parts = {part: 1000 * (end - start) for part, (start, end) in zip(PARTS, pairwise(moments), strict=True)}
    own = 1000 * result.metrics["test_seconds"]
    overhead = 1000 * (moments[-1] - moments[0]) - own
    lay_out = 1000 * result.metrics["lay_out_seconds"]
    return {**parts, "tests' own": own, "copied into the sandbox": lay_out, "git": 1000 * (calls.seconds - git_before),
            "overhead": overhead}  # fmt: skip


def run_worldlines(folder: Path, num: int, num_desks: int) -> Sequence[Mapping[str, float]]:
    """Runs worldlines in sequence. The first one opens sandbox and worktree, and counts like all others."""
    position = executor.ExecutorConfig(sandbox.Limits(), is_unsafe=True)
    space = workspace.Workspace(folder, f"bench{num_desks}", num_worktrees=num_desks)
    kind = workspace.GitBackend(space, workspace.WorkspaceRunner(space, position))
    try:
        return [one(kind, f"w{number}") for number in range(1, num + 1)]
    finally:
        kind.close()


def typed(folder: Path, number: int) -> Mapping[str, float]:
    """Does the same by hand without a test: adds, edits, commits, compares and removes a worktree."""
    desk, branch = folder.parent / "typed", f"typed/{number}"
    moments = [time.perf_counter()]
    git(folder, "worktree", "add", "-q", "-b", branch, str(desk))
    moments.append(time.perf_counter())
    (desk / "m0.py").write_text("def f0(x): return 2\n")
    git(desk, "commit", "-q", "-a", "-m", "Mend")
    moments.append(time.perf_counter())
    git(desk, "diff", "--numstat", "-z", "main", "HEAD")
    moments.append(time.perf_counter())
    moments.append(moments[-1])
    git(folder, "worktree", "remove", "--force", str(desk))
    git(folder, "branch", "-q", "-D", branch)
    moments.append(time.perf_counter())
    parts = {part: 1000 * (end - start) for part, (start, end) in zip(PARTS, pairwise(moments), strict=True)}
    return {**parts, "git": sum(parts.values()), "overhead": sum(parts.values())}


def row(title: str, results: Sequence[Mapping[str, float]]) -> Sequence[object]:
    names = ("overhead", "git", *PARTS, "copied into the sandbox", "tests' own")
    middle = [round(median(item[name] for item in results), 1) if name in results[0] else "" for name in names]
    overheads = sorted(item["overhead"] for item in results)
    return [title, len(results), *middle, round(overheads[int(0.95 * (len(overheads) - 1))], 1)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=100, help="worldlines of each kind")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as position:
        folder = make(Path(position) / "project")
        before = look(folder)
        desks, bare = run_worldlines(folder, args.num, 1), run_worldlines(folder, args.num, 0)
        hand = [typed(folder, number) for number in range(min(args.num, 20))]
        is_same, left = look(folder) == before, leftovers(folder)
    columns = (
        "ms, median",
        "worldlines",
        "overhead",
        "git's own",
        *PARTS,
        "copied into the sandbox",
        "tests' own",
        "95 %",
    )
    rows = [row("warm worktree", desks), row("no worktree", bare), row("git worktree add/remove, no test", hand)]
    over = median(desk["overhead"] for desk in desks)
    notes = [
        f"Main worktree: {'nothing changed' if is_same else 'CHANGED'}. Left behind: {', '.join(left) or 'nothing'}.",
        f"Goal: median overhead under {BAR_MS:g} ms on {NUM_FILES} files: {over:.1f} ms, "
        f"{'met' if over < BAR_MS else 'MISSED'}.",
    ]
    outcome.keep("workspace", {"One worldline": (columns, rows)}, notes)
    return 0 if is_same and not left and over < BAR_MS else 1


if __name__ == "__main__":
    sys.exit(main())
